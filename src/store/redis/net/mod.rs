//! Connections to a server: names, sockets, encryption, requests and replies.

pub mod connection;
pub mod dns;
pub mod endpoint;
pub mod error;
pub mod stream;
pub mod tls;
pub mod wait;
