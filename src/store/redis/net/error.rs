//! Why there is no reply.

use redis::ServerError;

#[derive(Debug)]
pub enum RequestError {
    /// The connection is of no more use.
    Broken(String),
    /// No reply in time. The connection can still be used: the late reply is skipped.
    TimedOut,
    Interrupted,
    /// The server refuses us.
    Denied(String),
    /// The server refused the login that was sent in front of the request.
    Refused(ServerError),
    /// This host cannot connect as it is configured.
    Unusable(String),
}
