//! A server that reads so slowly that a request does not fit into the connection.

use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::{Folder, Redlock};

/// All that comes, in small pieces, to the end of the connection.
fn read_slowly(mut stream: UnixStream, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        bytes.extend(&chunk[..length]);
        thread::sleep(Duration::from_millis(2));
    }
    bytes
}

/// Takes a line that begins with `mark` and a number from the bytes. `None` at their end.
fn number(bytes: &mut &[u8], mark: u8) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[1..end]);
    assert!(bytes[0] == mark, "something else follows half a request");
    *bytes = &bytes[end + 2..];
    Some(line.parse().expect("a number"))
}

/// Reads one request. `None` when it ends too early.
fn request(bytes: &mut &[u8]) -> Option<()> {
    for _ in 0..number(bytes, b'*')? {
        let length = number(bytes, b'$')?;
        *bytes = bytes.get(length..)?;
        assert!(bytes.len() < 2 || bytes.starts_with(b"\r\n"), "something else follows half a request");
        *bytes = bytes.get(2..)?;
    }
    Some(())
}

/// Ctrl-C while the take is being sent: the release does not go out behind half of it.
#[test]
fn nothing_follows_half_a_request() {
    let folder = Folder::plain();
    let socket = folder.path("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let keys: Vec<String> = (0..64).map(|number| format!("-k{number:x>512}")).collect();
    let keys = keys.iter().map(String::as_str);
    let args: Vec<&str> = ["run", "--connect-timeout", "20s"].into_iter().chain(keys).collect();
    let url = format!("redis+unix://{}", socket.display());
    let run = Redlock::new(&[&args[..], &["--", "true"]].concat()).server(&url).spawn();

    let (mut stream, _) = listener.accept().expect("redlock connects");
    let mut first = vec![0; 4096];
    stream.read_exact(&mut first).expect("the beginning of the take");
    run.signal(Signal::SIGINT);
    // Those that come later are told nothing.
    thread::spawn(move || listener.incoming().for_each(drop));
    let all = read_slowly(stream, first);
    assert_eq!(run.finish().code(), -2);
    let mut rest = &all[..];
    while request(&mut rest).is_some() {}
}
