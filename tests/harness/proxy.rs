//! A proxy between redlock and a server, which delays, drops and cuts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::eventually;

/// What the proxy does to the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Each chunk of a reply comes this much later.
    Delay(Duration),
    /// Accepts and never answers.
    Stall,
    /// As `Stall`, also for the ends of connections: as when the power fails.
    Silence,
    /// Forwards requests; nothing comes back.
    Mute,
    /// Each request arrives this much later, also when the fault is over by then.
    Late(Duration),
    /// A request with this in it is held up until the fault is another one.
    Hold(&'static str),
    /// The connection of the first request with this in it is closed to the client; the server reads the request behind a PING
    /// on another connection, or when the fault is another one.
    ReadLate(&'static str),
    /// Forwards requests, and closes the connection after this many bytes of the next reply. Once.
    CutReplyAt(usize),
    /// Forwards requests, and closes the connection instead of passing on the reply to one with this in it. Once.
    LoseReplyTo(&'static str),
    /// Answers the next request with something that is no Redis reply. Once.
    Rubbish(&'static str),
    /// Closes each connection on which a subscription begins, after this many bytes of the reply that says so.
    CutSubscriptionAt(usize),
}

/// A fault proxy between the program and a server.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    fault: Fault,
    connections: Vec<TcpStream>,
    injected: usize,
    /// Requests that came and were not forwarded yet.
    late: usize,
    round_trips: usize,
}

impl Proxy {
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port for the proxy");
        let port = listener.local_addr().expect("its number").port();
        let shared = Arc::new(Mutex::new(Shared {
            fault: Fault::None,
            connections: Vec::new(),
            injected: 0,
            late: 0,
            round_trips: 0,
        }));
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                carry(client, upstream, &accepting);
            }
        });
        Proxy { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn set(&self, fault: Fault) {
        self.shared.lock().expect("the proxy").fault = fault;
    }

    /// Closes all connections.
    pub fn cut(&self) {
        let mut shared = self.shared.lock().expect("the proxy");
        for connection in shared.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        shared.injected += 1;
    }

    /// How many requests are held up now.
    pub fn late(&self) -> usize {
        self.shared.lock().expect("the proxy").late
    }

    /// How often a client had to wait for the server so far, each connection counted as once. What is sent without
    /// waiting has to come before the reply to what was sent before it: see [`Fault::Delay`].
    pub fn round_trips(&self) -> usize {
        self.shared.lock().expect("the proxy").round_trips
    }

    /// How many faults were injected.
    pub fn injected(&self) -> usize {
        self.shared.lock().expect("the proxy").injected
    }
}

/// The first request with this in it that comes after `event`, at whichever of two proxies, is held up for good. The other
/// proxy forwards everything.
pub fn hold_one(proxies: &[Proxy; 2], text: &'static str, event: impl FnOnce()) {
    proxies.iter().for_each(|proxy| proxy.set(Fault::Hold(text)));
    event();
    let mut holding = None;
    eventually(Duration::from_secs(20), &format!("a request with {text}"), || {
        holding = proxies.iter().position(|proxy| proxy.late() > 0);
        holding.is_some()
    });
    proxies[1 - holding.expect("just seen")].set(Fault::None);
}

fn carry(client: TcpStream, upstream: TcpStream, shared: &Arc<Mutex<Shared>>) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a second handle");
    let (mut from_client, mut to_server) = (clone(&client), clone(&upstream));
    let (mut from_server, mut to_client) = (clone(&upstream), clone(&client));
    {
        let mut shared = shared.lock().expect("the proxy");
        shared.connections.extend([client, upstream]);
        shared.round_trips += 1;
    }
    // Whether what the client sends next may be because of what the server said.
    let is_its_turn = Arc::new(AtomicBool::new(true));
    let has_answered = Arc::clone(&is_its_turn);
    let requests = Arc::clone(shared);
    thread::spawn(move || {
        let mut chunk = [0; 65536];
        while let Ok(length @ 1..) = from_client.read(&mut chunk) {
            if is_its_turn.swap(false, Ordering::SeqCst) {
                requests.lock().expect("the proxy").round_trips += 1;
            }
            let fault = requests.lock().expect("the proxy").fault;
            let contains = |text| String::from_utf8_lossy(&chunk[..length]).contains(text);
            if matches!(fault, Fault::ReadLate(_)) && contains("PING") {
                requests.lock().expect("the proxy").fault = Fault::None;
            }
            if let Fault::LoseReplyTo(text) = fault
                && contains(text)
            {
                requests.lock().expect("the proxy").fault = Fault::CutReplyAt(0);
            }
            let is_late = match fault {
                Fault::Late(_) => true,
                Fault::Hold(text) => contains(text),
                Fault::ReadLate(text) => contains(text) && requests.lock().expect("the proxy").late == 0,
                _ => false,
            };
            if matches!(fault, Fault::ReadLate(_)) && is_late {
                let _ = from_client.shutdown(Shutdown::Both);
            }
            if is_late {
                requests.lock().expect("the proxy").late += 1;
                match fault {
                    Fault::Late(delay) => thread::sleep(delay),
                    _ => {
                        requests.lock().expect("the proxy").injected += 1;
                        while requests.lock().expect("the proxy").fault == fault {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            }
            let is_dropped = matches!(fault, Fault::Stall | Fault::Silence);
            let written = is_dropped || to_server.write_all(&chunk[..length]).is_ok();
            requests.lock().expect("the proxy").late -= usize::from(is_late);
            if !written {
                break;
            }
        }
        pass_on_end(&requests, &to_server);
    });
    let replies = Arc::clone(shared);
    thread::spawn(move || {
        let mut chunk = [0; 65536];
        while let Ok(length @ 1..) = from_server.read(&mut chunk) {
            let fault = {
                let mut shared = replies.lock().expect("the proxy");
                let fault = shared.fault;
                if !matches!(fault, Fault::None | Fault::Hold(_) | Fault::ReadLate(_) | Fault::LoseReplyTo(_))
                {
                    shared.injected += 1;
                }
                if matches!(fault, Fault::CutReplyAt(_) | Fault::Rubbish(_)) {
                    shared.fault = Fault::None;
                }
                fault
            };
            if let Fault::Delay(delay) = fault {
                thread::sleep(delay);
            }
            has_answered.store(true, Ordering::SeqCst);
            let written = match fault {
                Fault::None
                | Fault::Late(_)
                | Fault::Hold(_)
                | Fault::ReadLate(_)
                | Fault::Delay(_)
                | Fault::LoseReplyTo(_) => to_client.write_all(&chunk[..length]),
                Fault::Stall | Fault::Silence | Fault::Mute => Ok(()),
                Fault::Rubbish(text) => to_client.write_all(text.as_bytes()),
                Fault::CutSubscriptionAt(_) if !chunk.starts_with(b"*3\r\n$9\r\nsubscribe\r\n") => {
                    to_client.write_all(&chunk[..length])
                }
                Fault::CutReplyAt(at) | Fault::CutSubscriptionAt(at) => {
                    let _ = to_client.write_all(&chunk[..length.min(at)]);
                    break;
                }
            };
            if written.is_err() {
                break;
            }
        }
        pass_on_end(&replies, &to_client);
    });
}

fn pass_on_end(shared: &Mutex<Shared>, to: &TcpStream) {
    if shared.lock().expect("the proxy").fault != Fault::Silence {
        let _ = to.shutdown(Shutdown::Both);
    }
}
