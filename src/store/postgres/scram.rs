//! The login by SCRAM-SHA-256: RFC 5802 and 7677.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use uuid::Uuid;

/// PostgreSQL's default is 4096. A server that asks for more than this would have us compute for seconds.
const MOST_ITERATIONS: u32 = 1_000_000;

/// The client's side of one login.
pub struct Scram {
    password: String,
    nonce: String,
    signature: Option<hmac::Tag>,
}

impl Scram {
    pub fn new(password: String) -> Scram {
        Scram {
            password,
            nonce: format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
            signature: None,
        }
    }

    pub fn first(&self) -> String {
        format!("n,,{}", self.bare())
    }

    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// The proof for the challenge of the server; the error says what is wrong with that.
    pub fn prove(&mut self, challenge: &str) -> Result<String, &'static str> {
        const WRONG: &str = "its challenge of SCRAM-SHA-256 cannot be read";
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name)).ok_or(WRONG);
        let (nonce, salt) = (field("r=")?, STANDARD.decode(field("s=")?).map_err(|_| WRONG)?);
        let iterations: NonZeroU32 = field("i=")?.parse().map_err(|_| WRONG)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("its challenge of SCRAM-SHA-256 is for another login");
        }
        if iterations.get() > MOST_ITERATIONS {
            return Err(
                "its password has more than 1,000,000 iterations of SCRAM-SHA-256; lower scram_iterations",
            );
        }
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, self.password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client = hmac::sign(&salted, b"Client Key");
        let server = hmac::sign(&salted, b"Server Key");
        let stored = digest::digest(&digest::SHA256, client.as_ref());
        let last = format!("c=biws,r={nonce}");
        let message = format!("{},{challenge},{last}", self.bare());
        let proof = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, stored.as_ref()), message.as_bytes());
        let proof: Vec<u8> =
            client.as_ref().iter().zip(proof.as_ref()).map(|(key, signed)| key ^ signed).collect();
        self.signature =
            Some(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, server.as_ref()), message.as_bytes()));
        Ok(format!("{last},p={}", STANDARD.encode(&proof)))
    }

    /// True if the server knows the password as well.
    pub fn is_right(&self, answer: &str) -> bool {
        let shown = answer
            .split(',')
            .find_map(|field| field.strip_prefix("v="))
            .and_then(|tag| STANDARD.decode(tag).ok());
        matches!((&self.signature, shown), (Some(ours), Some(shown)) if ours.as_ref() == shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, whose user name PostgreSQL leaves empty: the messages differ, the arithmetic does not.
    #[test]
    fn a_server_with_the_password_is_believed() {
        let mut login = Scram::new("pencil".to_owned());
        let challenge = format!("r={}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", login.nonce);
        assert!(login.prove(&challenge).is_ok_and(|proof| proof.starts_with("c=biws,r=")));
        let right = login.signature.map(|tag| STANDARD.encode(tag)).unwrap_or_default();
        assert!(login.is_right(&format!("v={right}")));
        assert!(!login.is_right("v=AAAA") && !login.is_right("e=other"));
    }

    #[test]
    fn hostile_challenges_are_refused() {
        let mut login = Scram::new("pencil".to_owned());
        let nonce = login.nonce.clone();
        for challenge in [
            String::new(),
            format!("r={nonce},s=AAAA,i=4096"),
            "r=other,s=AAAA,i=4096".to_owned(),
            format!("r={nonce}x,s=AAAA,i=0"),
            format!("r={nonce}x,s=AAAA,i=4294967295"),
            format!("r={nonce}x,s=?,i=4096"),
        ] {
            assert!(login.prove(&challenge).is_err(), "{challenge}");
        }
    }
}
