//! The database: which server is asked, and transactions that are repeated where that is safe.

use super::connection::{BatchAnswer, PostgresConnection};
use super::error::{READ_ONLY, STANDBY, ServerError};
use super::message::{Statement, TableRow};
use super::url::PostgresAddress;
use crate::lock::{StoreError, Timeout};
use crate::store::attempts::one_after_the_other;
use crate::store::call_error::CallError;

/// The beginning of each transaction, whatever the settings of the database and of the user are.
///
/// A client that was killed while a statement waits for a row must not be granted the lock later, so that wait is short.
const BEGIN: [&str; 2] = ["BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", "SET LOCAL lock_timeout = '2s'"];

/// When the server answers a commit.
#[derive(Clone, Copy)]
pub enum Commit {
    /// It is on disk: a crash of the server does not take it back.
    Durable,
    /// It will be on disk within a second, or with the next durable one. A crash that comes first takes it back.
    Soon,
}

impl Commit {
    fn setting(self) -> &'static str {
        match self {
            // A stricter setting of an administrator stays.
            Commit::Durable => {
                "SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)"
            }
            Commit::Soon => "SET LOCAL synchronous_commit = off",
        }
    }
}

pub struct PostgresDatabase {
    pub address: PostgresAddress,
    pub connection: Option<PostgresConnection>,
    /// Statements were sent, so a lock may have been granted.
    pub was_asked: bool,
    /// The server that answered last.
    current: usize,
}

/// The rows of each statement, or the error that took back all of them, with the number of the statement.
pub type Transacted = Result<Vec<Vec<TableRow>>, (usize, ServerError)>;

impl PostgresDatabase {
    pub fn new(address: PostgresAddress) -> PostgresDatabase {
        PostgresDatabase { address, connection: None, was_asked: false, current: 0 }
    }

    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Carries out one transaction in one round trip, again when it was undone for the sake of another, such as the one that
    /// makes the schema. A server that is read-only is left for the next one.
    pub fn transact(
        &mut self,
        statements: &[Statement],
        timeout: &Timeout,
    ) -> Result<Vec<Vec<TableRow>>, StoreError> {
        self.transact_until(Commit::Durable, statements, timeout)
    }

    /// The same, until the commit is that sure.
    pub fn transact_until(
        &mut self,
        commit: Commit,
        statements: &[Statement],
        timeout: &Timeout,
    ) -> Result<Vec<Vec<TableRow>>, StoreError> {
        loop {
            match self.attempt(statements, commit, timeout)? {
                Ok(rows) => return Ok(rows),
                Err((_, error)) if error.is_undone() && !timeout.until.has_passed() => {}
                Err((_, error)) => return Err(self.failure(error)),
            }
        }
    }

    /// One try of it, where the caller has an answer to some errors of the server.
    pub fn attempt(
        &mut self,
        statements: &[Statement],
        commit: Commit,
        timeout: &Timeout,
    ) -> Result<Transacted, StoreError> {
        let begin: Vec<_> = BEGIN.into_iter().chain([commit.setting()]).map(Statement::plain).collect();
        let before = begin.len();
        let end = Statement::plain("COMMIT");
        let all: Vec<Statement> = begin.into_iter().chain(statements.iter().cloned()).chain([end]).collect();
        let BatchAnswer { mut rows, error } = self.run(&all, timeout)?;
        Ok(match error {
            Some(error) => Err((rows.len().saturating_sub(before), error)),
            None if rows.len() == all.len() => {
                rows.pop();
                Ok(rows.split_off(before))
            }
            None => {
                self.connection = None;
                let text = "its answer makes no sense".to_owned();
                Err((0, ServerError { code: "08P01".to_owned(), text, is_fatal: false }))
            }
        })
    }

    pub fn failure(&self, error: ServerError) -> StoreError {
        CallError::from(error).of(&self.name())
    }

    /// Carries out statements outside of a transaction of ours.
    pub fn run(&mut self, statements: &[Statement], timeout: &Timeout) -> Result<BatchAnswer, StoreError> {
        let name = self.name();
        // An idle connection may have ended with its server: what is asked can be asked again.
        if let Some(connection) = &mut self.connection {
            match connection.run(statements, timeout) {
                Ok(answer) => match self.keep(answer) {
                    Ok(answer) => return Ok(answer),
                    Err(_) => self.current = self.current.wrapping_add(1),
                },
                Err(CallError::NoAnswer { .. }) if !connection.is_usable() && !timeout.until.has_passed() => {
                    self.connection = None;
                }
                Err(error) => {
                    self.connection.take_if(|connection| !connection.is_usable());
                    return Err(error.of(&name));
                }
            }
        }
        let servers = self.address.servers.len();
        one_after_the_other(servers, timeout, |timeout| {
            let index = self.current % servers;
            let server = &self.address.servers[index];
            let asked = PostgresConnection::open(
                server,
                self.address.tls(server),
                &self.address.login(server),
                self.address.is_pooled,
                timeout,
            )
            .and_then(|connection| {
                self.was_asked = true;
                self.connection.insert(connection).run(statements, timeout)
            });
            let answer = asked.and_then(|answer| self.keep(answer));
            answer.map_err(|error| {
                let error = error.at(&self.address.servers[index], servers);
                if matches!(error, CallError::NoAnswer { .. }) {
                    self.current = index + 1;
                }
                self.connection.take_if(|connection| !connection.is_usable() || servers > 1);
                error
            })
        })
        .map_err(|error| error.of(&name))
    }

    /// The answer, unless another server may have a better one. After an error a transaction is to be ended.
    fn keep(&mut self, answer: BatchAnswer) -> Result<BatchAnswer, CallError> {
        match &answer.error {
            Some(error) if matches!(&*error.code, STANDBY | READ_ONLY) || error.is_fatal => {
                self.connection = None;
                Err(error.clone().into())
            }
            Some(_) => {
                self.connection.iter_mut().for_each(PostgresConnection::end_transaction);
                Ok(answer)
            }
            None => Ok(answer),
        }
    }
}
