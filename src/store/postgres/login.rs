//! The login on a connection: with a password, if the server asks for one, and SCRAM.

use super::connection::PostgresConnection;
use super::message::{BackendMessage, frame, startup};
use super::scram::Scram;
use super::url::PostgresLogin;
use crate::lock::Timeout;
use crate::store::call_error::CallError;

impl PostgresConnection {
    pub(super) fn log_in(&mut self, login: &PostgresLogin, timeout: &Timeout) -> Result<(), CallError> {
        const UNKNOWN: &str =
            "it asks for a login that redlock does not know; it knows SCRAM-SHA-256, and a password over TLS";
        let broken = |why: &str| CallError::no_answer(why);
        self.write(&startup(&login.user, &login.database), timeout)?;
        let password = || {
            let missing = "it asks for a password: --password-file, PGPASSWORD or ~/.pgpass";
            login.password.clone().ok_or_else(|| CallError::Denied(missing.to_owned()))
        };
        let (mut scram, mut is_proven) = (None::<Scram>, false);
        loop {
            match self.read(timeout)? {
                // After SCRAM has begun the server has to show that it knows the password.
                BackendMessage::Authentication(0, _) if scram.is_none() || is_proven => {}
                BackendMessage::Authentication(0, _) => {
                    return Err(broken("it accepted the login without proving that it knows the password"));
                }
                BackendMessage::Authentication(3, _) if !self.stream.is_in_plain() => {
                    let password = password()?;
                    self.answer_login(timeout, |body| {
                        body.extend(password.as_bytes());
                        body.push(0);
                    })?;
                }
                BackendMessage::Authentication(3, _) => {
                    let why = "it asks for the password in plain, which redlock sends over TLS only";
                    return Err(CallError::Denied(why.to_owned()));
                }
                BackendMessage::Authentication(5, _) => {
                    let why = "it asks for an MD5 password; set password_encryption to scram-sha-256 and set the password again";
                    return Err(CallError::Denied(why.to_owned()));
                }
                BackendMessage::Authentication(10, names) => {
                    if !names.split(|byte| *byte == 0).any(|name| name == b"SCRAM-SHA-256") {
                        return Err(CallError::Denied(UNKNOWN.to_owned()));
                    }
                    let begun = scram.insert(Scram::new(password()?));
                    let first = begun.first();
                    self.answer_login(timeout, |body| {
                        body.extend(b"SCRAM-SHA-256\0");
                        body.extend((first.len() as i32).to_be_bytes());
                        body.extend(first.as_bytes());
                    })?;
                }
                BackendMessage::Authentication(11, challenge) => {
                    let begun = scram.as_mut().ok_or_else(|| broken("its login makes no sense"))?;
                    let proof = begun.prove(&String::from_utf8_lossy(&challenge)).map_err(broken)?;
                    self.answer_login(timeout, |body| body.extend(proof.as_bytes()))?;
                }
                BackendMessage::Authentication(12, answer) => {
                    let is_right =
                        scram.as_ref().is_some_and(|scram| scram.is_right(&String::from_utf8_lossy(&answer)));
                    if !is_right {
                        return Err(CallError::Denied(
                            "it could not prove that it knows the password".to_owned(),
                        ));
                    }
                    is_proven = true;
                }
                BackendMessage::Authentication(..) => return Err(CallError::Denied(UNKNOWN.to_owned())),
                BackendMessage::BackendKey(process) => self.process = process,
                BackendMessage::Error(error) => return Err(error.into()),
                BackendMessage::Ready => return Ok(()),
                _ => {}
            }
        }
    }

    fn answer_login(&mut self, timeout: &Timeout, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), CallError> {
        let mut packet = Vec::new();
        frame(&mut packet, b'p', write);
        self.write(&packet, timeout)
    }
}
