//! Name resolution with a timeout.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::thread;

use nix::poll::PollFlags;

use super::{RequestError, RequestResult, wait_ready};
use crate::lock::Timeout;
use crate::mailbox::mailbox;

/// The addresses of a host. getaddrinfo(3) can hang for many seconds and cannot be interrupted, so it
/// runs in a thread of its own, which goes on when the timeout ends.
pub fn resolve(host: &str, port: u16, timeout: &Timeout) -> RequestResult<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let broken = |error: std::io::Error| RequestError::Broken(error.to_string());
    let (answer, addresses) = mailbox().map_err(broken)?;
    let name = (host.to_owned(), port);
    let resolver = thread::Builder::new().name("resolver".to_owned());
    let _detached = resolver
        .spawn(move || {
            answer.send(name.to_socket_addrs().map(Vec::from_iter));
        })
        .map_err(broken)?;
    wait_ready(addresses.as_fd(), PollFlags::POLLIN, timeout).map_err(|failure| match failure {
        RequestError::TimedOut => RequestError::broken("its name could not be resolved in time"),
        other => other,
    })?;
    match addresses.take() {
        Ok(Some(Ok(addresses))) => Ok(addresses),
        Ok(Some(Err(error))) => {
            let text = error.to_string();
            // The end of "failed to lookup address information: Name or service not known".
            let reason = text.rsplit(": ").next().unwrap_or(&text).to_lowercase();
            Err(RequestError::Broken(format!("its name cannot be resolved ({reason})")))
        }
        _ => Err(RequestError::broken("its name cannot be resolved")),
    }
}
