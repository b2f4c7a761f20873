use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use nix::poll::PollFlags;

use super::failure::Failure;
use super::idle::ready;
use crate::lock::Patience;

/// The addresses of a host. getaddrinfo(3) can hang for many seconds and cannot be interrupted, so it
/// runs in a thread that is left behind when the patience ends.
pub fn resolve(host: &str, port: u16, patience: &Patience) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let broken = |error: std::io::Error| Failure::Broken(error.to_string());
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
        Failure::TimedOut => Failure::Broken("its name could not be resolved in time".to_owned()),
        other => other,
    })?;
    match addresses.recv() {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Failure::Broken(format!("its name cannot be resolved ({})", reason(&error)))),
        Err(_) => Err(Failure::Broken("its name cannot be resolved".to_owned())),
    }
}

/// "failed to lookup address information: Name or service not known" is one thought too many.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.rsplit(": ").next().unwrap_or(&text).to_lowercase()
}
