//! rslock: takes and releases the lock NAME as its stdin says.

use std::time::Duration;

use rslock::{Lock, LockError, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // PORT is one, or those of a quorum with commas between.
    let [ports, name, ttl] = &args[..] else { panic!("PORT NAME TTL") };
    let ttl = Duration::from_secs(ttl.parse().expect("seconds"));
    let servers = ports.split(',').map(|port| format!("redis://127.0.0.1:{port}"));
    let mut manager = LockManager::new(servers.collect::<Vec<_>>());
    manager.set_retry(1, Duration::from_millis(1));
    let mut held: Option<Lock> = None;
    for line in std::io::stdin().lines() {
        let done = match line.expect("a line").as_str() {
            "take" => match manager.lock(name.as_bytes(), ttl).await {
                Ok(lock) => held.replace(lock).is_none(),
                Err(LockError::Unavailable) => false,
                Err(error) => panic!("{error}"),
            },
            _ => {
                // It does not say whether it held the lock.
                held.take().expect("a lock").release().await;
                true
            }
        };
        println!("{}", if done { "yes" } else { "no" });
    }
}
