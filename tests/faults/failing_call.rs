//! A call that does not come to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::{Authority, Finished, Papers, Redis, Redlock, in_ms, slowed, within};

/// In every URL below.
pub const CANARY: &str = "canary";

/// A call that has a password, and no success.
pub struct Call {
    pub redlock: Redlock,
    /// What messages call the server.
    pub shown: String,
}

/// `redlock run` with a server at this URL, which is shown in messages, and a password in it.
pub fn run(url: &str) -> Call {
    with_user(url, "")
}

pub fn with_user(url: &str, user: &str) -> Call {
    let limit = in_ms(slowed(1000));
    let redlock =
        Redlock::new(&["run", "-v", "-k", "X", "--connect-timeout", &limit, "--", "echo", "started"]);
    Call { redlock: redlock.server(&logged_in(url, user)), shown: url.to_owned() }
}

pub fn logged_in(url: &str, user: &str) -> String {
    url.replacen("://", &format!("://{user}:{CANARY}@"), 1)
}

impl Call {
    pub fn with(mut self, name: &str, value: &Path) -> Call {
        self.redlock = self.redlock.env(name, value);
        self
    }

    pub fn trusting(self, authority: &Authority) -> Call {
        self.with("REDLOCK_TLS_CA", &authority.file())
    }

    pub fn showing(self, papers: &Papers) -> Call {
        self.with("REDLOCK_TLS_CERT", &papers.cert).with("REDLOCK_TLS_KEY", &papers.key)
    }

    /// One line with the server's name and these words, in time; nothing was started.
    #[track_caller]
    pub fn fails(self, code: i32, words: &str) -> Finished {
        let start = Instant::now();
        let ended = self.redlock.run().expect(code);
        within(Duration::from_secs(3), start);
        let line = ended.line();
        assert!(
            line.starts_with("redlock: ") && line.contains(&self.shown) && line.contains(words),
            "{words:?}: {line}"
        );
        assert!(ended.stdout.is_empty() && !line.contains(CANARY), "{ended:?}");
        println!("{line}");
        ended
    }

    #[track_caller]
    pub fn works(self) {
        let ended = self.redlock.run().expect(0);
        assert!(ended.stdout == "started\n" && !ended.stderr.contains(CANARY), "{ended:?}");
    }
}

/// A server with this certificate; it asks nobody for one.
pub fn tls(papers: &Papers) -> Redis {
    Redis::with_tls(papers, papers, &["--tls-auth-clients", "no", "--requirepass", CANARY])
}
