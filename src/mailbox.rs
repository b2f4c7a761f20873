//! A queue between threads whose receiver can be polled beside other descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvError, TryRecvError};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// The end that receives. Its descriptor is readable when there is a message, or when the last sender is gone.
pub struct Mailbox<T> {
    messages: mpsc::Receiver<T>,
    bell: Arc<EventFd>,
}

pub struct MailboxSender<T> {
    messages: Option<Arc<mpsc::Sender<T>>>,
    bell: Arc<EventFd>,
}

/// The descriptor of mailboxes that are read one after the other.
pub struct Bell(Arc<EventFd>);

impl Bell {
    /// Fails where the system allows no more descriptors.
    pub fn new() -> io::Result<Bell> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_SEMAPHORE;
        Ok(Bell(Arc::new(EventFd::from_flags(flags)?)))
    }

    /// Makes a mailbox. Late messages to an earlier one also wake its receiver.
    pub fn mailbox<T>(&self) -> (MailboxSender<T>, Mailbox<T>) {
        let (sender, receiver) = mpsc::channel();
        let sender = MailboxSender { messages: Some(Arc::new(sender)), bell: Arc::clone(&self.0) };
        (sender, Mailbox { messages: receiver, bell: Arc::clone(&self.0) })
    }
}

/// A mailbox with a descriptor of its own. Fails where the system allows no more of them.
pub fn mailbox<T>() -> io::Result<(MailboxSender<T>, Mailbox<T>)> {
    Ok(Bell::new()?.mailbox())
}

impl<T> MailboxSender<T> {
    /// Puts a message into the mailbox; without a receiver it is lost.
    pub fn send(&self, message: T) {
        let sent = self.messages.as_ref().is_some_and(|messages| messages.send(message).is_ok());
        if sent {
            let _ = self.bell.write(1);
        }
    }
}

impl<T> Clone for MailboxSender<T> {
    fn clone(&self) -> Self {
        MailboxSender { messages: self.messages.clone(), bell: Arc::clone(&self.bell) }
    }
}

impl<T> Drop for MailboxSender<T> {
    fn drop(&mut self) {
        // The last sender closes the queue first: the receiver has to see that when it wakes up.
        if self.messages.take().and_then(Arc::into_inner).is_some() {
            let _ = self.bell.write(1);
        }
    }
}

impl<T> Mailbox<T> {
    /// The next message, without waiting. Fails when no message is left and no sender.
    pub fn take(&self) -> Result<Option<T>, RecvError> {
        // The descriptor counts the messages, and the end.
        if self.bell.read().is_err() {
            return Ok(None);
        }
        match self.messages.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                let _ = self.bell.write(1);
                Err(RecvError)
            }
        }
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::is_readable;

    #[test]
    fn the_descriptor_tells_of_messages_and_of_the_end() -> io::Result<()> {
        let (sender, mailbox) = mailbox()?;
        assert!(!is_readable(mailbox.as_fd()));
        let other = sender.clone();
        sender.send(1);
        other.send(2);
        assert!(is_readable(mailbox.as_fd()));
        assert_eq!(mailbox.take(), Ok(Some(1)));
        assert!(is_readable(mailbox.as_fd()));
        assert_eq!(mailbox.take(), Ok(Some(2)));
        assert_eq!(mailbox.take(), Ok(None));
        assert!(!is_readable(mailbox.as_fd()));
        drop((sender, other));
        assert!(is_readable(mailbox.as_fd()));
        assert_eq!(mailbox.take(), Err(RecvError));
        assert!(is_readable(mailbox.as_fd()));
        Ok(())
    }
}
