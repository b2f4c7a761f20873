//! Memcached hangs, dies, starts anew and empty, is full, or is no Memcached.

use std::time::Duration;

use crate::harness::{Memcached, Redis, Redlock, Store, eventually};
use crate::takeover::Takeover;

fn memcached(scene: &mut Takeover) -> &mut Memcached {
    scene.store.memcached_server()
}

fn scene() -> Takeover {
    Takeover::new(Store::own_memcached(Memcached::start()))
}

/// The job is dead by the fence, and the second gets in when the server goes on.
#[test]
fn hung() {
    let mut scene = scene();
    scene.fault(|scene| memcached(scene).pause());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    memcached(&mut scene).resume();
    let first = scene.second_is_alone();
    assert_eq!(first.code(), 79, "{first:?}");
    assert!(first.stderr.contains("lost 'X'"), "{first:?}");
}

#[test]
fn killed_for_good() {
    let mut scene = scene();
    scene.fault(|scene| memcached(scene).kill());
    scene.await_death(scene.ttl + Duration::from_secs(1));
    memcached(&mut scene).restart();
    assert_eq!(scene.second_is_alone().code(), 79);
}

/// The holder finds out at its next renewal. Until then another may enter: the manual page says so.
#[test]
fn a_restart_loses_the_lock() {
    let mut store = Store::own_memcached(Memcached::start());
    let holder = store.hold("X", &["--ttl", "6s"]);
    store.memcached_server().kill();
    store.memcached_server().restart();
    let lost = holder.finish().expect(79);
    assert!(lost.stderr.contains("lost 'X'"), "{lost:?}");
}

/// What was asked for while the server hung is taken back when it goes on within the time for that.
#[test]
fn a_request_that_a_hung_server_carries_out_late_is_taken_back() {
    let mut store = Store::own_memcached(Memcached::start());
    store.memcached_server().pause();
    let asked = store.redlock(&["run", "-k", "X", "--wait", "--", "echo", "ran"]).spawn();
    let asks = || {
        let folder = format!("/proc/{}/net/tcp", asked.pid());
        let port = format!(
            ":{:04X} 01",
            store.url.rsplit(':').next().expect("a port").parse::<u16>().expect("a port")
        );
        std::fs::read_to_string(folder).unwrap_or_default().contains(&port)
    };
    eventually(Duration::from_secs(20), "a connection", asks);
    asked.signal(nix::sys::signal::Signal::SIGTERM);
    store.memcached_server().resume();
    let ended = asked.finish();
    assert_eq!((ended.code(), ended.stdout.as_str()), (-15, ""), "{ended:?}");
    assert!(store.status("X")["holders"][0].is_null());
}

#[test]
fn without_compare_and_swap_it_is_refused() {
    let store = Store::own_memcached(Memcached::with(&["-C"]));
    let refused = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(78);
    assert!(refused.line().contains("start Memcached without -C"), "{refused:?}");
    // Nothing stays there.
    let answer = store.redlock(&["run", "-k", "X", "--", "true"]).run().expect(78);
    assert!(answer.line().contains("start Memcached without -C"), "{answer:?}");
    let examined = store.redlock(&["doctor"]).run().expect(1);
    assert!(examined.stdout.contains("it has no compare-and-swap"), "{examined:?}");
}

#[test]
fn a_value_of_another_program_is_left_alone() {
    let mut store = Store::own_memcached(Memcached::start());
    let stored = store.memcached_server().ask("ms redlock:X 5 T0\r\nhello");
    assert_eq!(stored.expect("an answer"), "HD");
    for args in [&["run", "-k", "X", "--", "true"][..], &["status", "X"], &["break", "-k", "X", "--yes"]] {
        let refused = store.redlock(args).run().expect(78);
        assert!(refused.line().contains("'X' is not a lock"), "{refused:?}");
    }
    assert_eq!(store.memcached_server().ask("mg redlock:X s").expect("an answer"), "HD s5");
}

/// With -M it says so instead of evicting locks.
#[test]
fn a_full_memory_grants_nothing() {
    let mut store = Store::own_memcached(Memcached::with(&["-M", "-m", "2"]));
    // Items of each size have memory of their own.
    let server = store.memcached_server();
    for size in (200..800).step_by(25) {
        let value = "x".repeat(size);
        let mut fill = (0..).map(|number| server.ask(&format!("ms {size}-{number} {size} T0\r\n{value}")));
        assert!(fill.any(|answer| answer.is_ok_and(|answer| answer.starts_with("SERVER_ERROR"))));
    }
    let refused = store.redlock(&["run", "-k", "X", "--", "echo", "ran"]).run().expect(69);
    assert!(refused.line().contains("out of memory") && refused.stdout.is_empty(), "{refused:?}");
}

#[test]
fn a_redis_is_no_memcached() {
    let redis = Redis::start();
    let url = format!("memcached://127.0.0.1:{}", redis.port);
    let refused = Redlock::new(&["run", "-k", "X", "--", "true"]).server(&url).run().expect(69);
    assert!(refused.line().contains("does not speak the protocol of Memcached"), "{refused:?}");
}

#[test]
fn doctor_says_what_it_cannot_promise() {
    let store = Store::memcached();
    let examined = store.redlock(&["doctor"]).run().expect(0);
    let says = |text: &str| examined.stdout.contains(text);
    assert!(says("two may hold one lock after a restart") && says("it may evict locks"), "{examined:?}");
}
