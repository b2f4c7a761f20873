//! The socket of the store's connections, as hyper reads and writes it.

use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use hyper::rt::{self, ReadBufCursor};
use tokio::io::unix::AsyncFd;

use crate::store::net::RequestError;
use crate::store::net::stream::Stream;
use crate::store::net::tls::error_in;

/// The bytes that are read at once: an answer is shorter, most of the time.
const CHUNK: usize = 8 << 10;

/// After so many reads other tasks have their turn: a server may send without end, and hyper reads as long as it can.
const READS_IN_A_ROW: u32 = 4;
/// A call reads no more bytes than this: the longest answer, and what HTTP/2 adds.
const MOST_BYTES: usize = 20 << 20;

/// A connected socket, encrypted or not, within the runtime.
pub struct Socket {
    stream: AsyncFd<Stream>,
    refusal: Refusal,
    allowance: Allowance,
    reads: u32,
}

/// The number of bytes that the server may still send in answer to the call that is made now.
#[derive(Clone, Default)]
pub struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    /// For the next call.
    pub fn renew(&self) {
        self.0.store(MOST_BYTES, Ordering::Relaxed);
    }

    fn spend(&self, bytes: usize) -> Result<(), RequestError> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        let too_much =
            || format!("it sends more than {} MiB for one answer; is it an etcd?", MOST_BYTES >> 20);
        left.map(drop).map_err(|_| RequestError::Broken(too_much()))
    }
}

/// Why the server ended an encrypted connection, as it said itself: HTTP/2 above does not pass that on.
#[derive(Clone, Default)]
pub struct Refusal(Arc<Mutex<Option<RequestError>>>);

impl Refusal {
    pub fn take(&self) -> Option<RequestError> {
        self.0.lock().ok().and_then(|mut refusal| refusal.take())
    }

    fn note(&self, error: &io::Error) {
        error_in(error).into_iter().for_each(|why| self.set(why));
    }

    fn set(&self, why: RequestError) {
        if let Ok(mut refusal) = self.0.lock() {
            *refusal = Some(why);
        }
    }
}

impl Socket {
    /// To be called within the runtime.
    #[expect(deprecated, reason = "its successor is unsafe; the stream owns its descriptor and keeps it")]
    pub fn new(stream: Stream, refusal: Refusal, allowance: Allowance) -> io::Result<Socket> {
        Ok(Socket { stream: AsyncFd::new(stream)?, refusal, allowance, reads: 0 })
    }

    fn poll_write_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut write: impl FnMut(&mut Stream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let mut guard = ready!(self.stream.poll_write_ready_mut(context))?;
            match guard.try_io(|fd| write(fd.get_mut())) {
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(written) => {
                    written.as_ref().err().into_iter().for_each(|error| self.refusal.note(error));
                    return Poll::Ready(written);
                }
                Err(_would_block) => {}
            }
        }
    }
}

impl rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK];
        let length = buffer.remaining().min(CHUNK);
        let chunk = &mut chunk[..length];
        loop {
            // Also behind TLS records without data, which end in no read here.
            if self.reads == READS_IN_A_ROW {
                self.reads = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.reads += 1;
            // First without waiting: TLS may hold bytes, read and decrypted, of which the socket knows nothing.
            let read = match self.stream.get_mut().read(chunk) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut guard = ready!(self.stream.poll_read_ready_mut(context))?;
                    match guard.try_io(|fd| fd.get_mut().read(chunk)) {
                        Ok(read) => read,
                        Err(_would_block) => continue,
                    }
                }
                read => read,
            };
            match read {
                Ok(length) => {
                    if let Err(why) = self.allowance.spend(length) {
                        self.refusal.set(why);
                        return Poll::Ready(Err(ErrorKind::InvalidData.into()));
                    }
                    buffer.put_slice(&chunk[..length]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.refusal.note(&error);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl rt::Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |stream| match ends_with_head(bytes) {
            true => stream.write_more(bytes),
            false => stream.write(bytes),
        })
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_with(context, Stream::flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

/// The last of these frames is the head of a request whose message follows at once: HEADERS without END_STREAM, see
/// RFC 9113, section 4.1. Each in a packet of its own would wake the server twice.
fn ends_with_head(mut frames: &[u8]) -> bool {
    const HEADERS: u8 = 1;
    const END_STREAM: u8 = 1;
    loop {
        let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = frames else { return false };
        match rest.split_at_checked(u32::from_be_bytes([0, *a, *b, *c]) as usize) {
            Some((_, [])) => return *kind == HEADERS && flags & END_STREAM == 0,
            Some((_, next)) => frames = next,
            None => return false,
        }
    }
}

/// Runs what hyper does beside a call in the store's runtime.
#[derive(Clone, Copy)]
pub struct InRuntime;

impl<F: Future<Output: Send> + Send + 'static> rt::Executor<F> for InRuntime {
    fn execute(&self, task: F) {
        drop(tokio::spawn(task));
    }
}

#[cfg(test)]
mod tests {
    use super::ends_with_head;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn a_head_waits_for_its_message() {
        let (head, message, ping) = (frame(1, 4, b"head"), frame(0, 1, b"message"), frame(6, 1, &[0; 8]));
        assert!(ends_with_head(&head) && ends_with_head(&[ping.clone(), head.clone()].concat()));
        let head_alone = frame(1, 5, b"head");
        for sent in [[head.clone(), message].concat(), [head.clone(), ping].concat(), head_alone, Vec::new()]
        {
            assert!(!ends_with_head(&sent), "{sent:?}");
        }
        assert!((1..head.len()).all(|cut| !ends_with_head(&head[..cut])));
    }
}
