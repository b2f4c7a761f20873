use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use nix::poll::PollFlags;

use super::failure::RequestError;
use super::wait::ready;
use crate::lock::Timeout;

/// The addresses of a host. getaddrinfo(3) can hang for many seconds and cannot be interrupted, so it
/// runs in a thread that is left behind when the patience ends.
pub fn resolve(host: &str, port: u16, patience: &Timeout) -> Result<Vec<SocketAddr>, RequestError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let broken = |error: std::io::Error| RequestError::Broken(error.to_string());
    let (done, finished) = UnixStream::pair().map_err(broken)?;
    let (answer, addresses) = mpsc::channel();
    let name = (host.to_owned(), port);
    let resolver = thread::Builder::new().name("resolver".to_owned());
    let _detached = resolver
        .spawn(move || {
            let _ = answer.send(name.to_socket_addrs().map(Vec::from_iter));
            drop(done);
        })
        .map_err(broken)?;
    ready(finished.as_fd(), PollFlags::POLLIN, patience).map_err(|failure| match failure {
        RequestError::TimedOut => RequestError::Broken("its name could not be resolved in time".to_owned()),
        other => other,
    })?;
    match addresses.recv() {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => {
            Err(RequestError::Broken(format!("its name cannot be resolved ({})", reason(&error))))
        }
        Err(_) => Err(RequestError::Broken("its name cannot be resolved".to_owned())),
    }
}

/// "failed to lookup address information: Name or service not known" is one thought too many.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.rsplit(": ").next().unwrap_or(&text).to_lowercase()
}
