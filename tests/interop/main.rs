//! redlock and other implementations on one key, both ways.

#[path = "../harness/mod.rs"]
mod harness;

mod both;
mod etcdctl;
mod peer;
mod quorum;
mod zookeeper;

macro_rules! peers {
    ($($name:ident $peer:ident)*) => { $(
        mod $name {
            use crate::{both, peer::$peer};

            #[test]
            fn redlock_waits_for_the_peer() {
                both::redlock_waits_for_the_peer(&$peer);
            }

            #[test]
            fn the_peer_waits_for_redlock() {
                both::the_peer_waits_for_redlock(&$peer);
            }

            #[test]
            fn a_late_release_of_the_peer_does_nothing() {
                both::a_late_release_of_the_peer_does_nothing(&$peer);
            }

            #[test]
            fn they_never_meet() {
                both::they_never_meet(&$peer);
            }
        }
    )* };
}

#[test]
fn python_redis_lock_is_told_of_a_release() {
    both::a_peer_that_waits_is_told(&peer::PYTHON_REDIS_LOCK);
}

peers! {
    redis_py REDIS_PY
    python_redis_lock PYTHON_REDIS_LOCK
    node_redlock NODE_REDLOCK
    rslock RSLOCK
}
