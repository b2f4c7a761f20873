//! A lease that is kept alive in the background of the runtime, also while a call waits for its answer.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::calls::EtcdCalls;
use super::client::EtcdClient;
use crate::clock::BootTime;
use crate::lock::{StoreError, Timeout};

/// The answer to an extension: the time at which that was sent, and true if the lease is there.
pub type Extension = (BootTime, bool);

/// Extends a lease again and again, over one stream. It ends with the connection to the member, and when it is dropped.
pub struct KeepAlive {
    answers: UnboundedReceiver<Extension>,
    /// The number of the connection.
    connection: u32,
}

impl KeepAlive {
    /// The lease was extended at `last`.
    pub fn start(
        lease: i64,
        last: BootTime,
        interval: Duration,
        calls: &mut EtcdCalls,
        timeout: &Timeout,
    ) -> Result<KeepAlive, StoreError> {
        let answers = calls.members.call(timeout, |client| async move {
            let (news, answers) = unbounded_channel();
            drop(tokio::spawn(extend(client, lease, last, interval, news)));
            Ok(answers)
        })?;
        Ok(KeepAlive { answers, connection: calls.members.connections() })
    }

    /// True while its connection is the one in use.
    pub fn is_current(&self, calls: &EtcdCalls) -> bool {
        self.connection == calls.members.connections()
    }

    /// The next answer; `None` at the end of the stream.
    pub async fn answer(&mut self) -> Option<Extension> {
        self.answers.recv().await
    }

    /// The last answer that has come.
    pub fn last_answer(&mut self) -> Option<Extension> {
        std::iter::from_fn(|| self.answers.try_recv().ok()).last()
    }
}

async fn extend(
    client: EtcdClient,
    lease: i64,
    last: BootTime,
    interval: Duration,
    news: UnboundedSender<Extension>,
) {
    let (requests, mut answers) = client.keep_alive_stream();
    let mut pause = last.plus(interval).left();
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = news.closed() => return,
        }
        pause = interval;
        let sent = BootTime::now();
        let is_sent = requests.send(lease).is_ok();
        let Some(answer) = answers.recv().await.filter(|_| is_sent) else { return };
        if news.send((sent, answer.ttl > 0)).is_err() {
            return;
        }
    }
}
