//! `acquire --until`: a person reserves a lock.

use std::time::{Duration, SystemTime};

use crate::harness::Store;

pub fn a_person_reserves_it(store: &Store) {
    let end = SystemTime::now() + Duration::from_secs(3600);
    let end = humantime::format_rfc3339_seconds(end).to_string();
    let reserve = ["acquire", "X", "--until", &end, "--reason", "load test"];
    let token = store.redlock(&reserve).run().expect(0).stdout;
    let holder = &store.status("X")["holders"][0];
    assert_eq!(
        (&holder["reserved_until"], &holder["reason"]),
        (&end.replace('Z', ".000Z").into(), &"load test".into())
    );
    // etcd counts in whole seconds, and ZooKeeper does not say it.
    let is_right = |left| (3_500_000..=3_601_000).contains(&left);
    assert!(holder["left_ms"].as_u64().map_or(store.is_zookeeper(), is_right), "{holder}");
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).expect("users").expect("this user").name;
    let shown = store.redlock(&["status", "X"]).run().expect(0).stdout;
    let phrase = format!("reserved by {user} until ");
    assert!(shown.contains(&phrase) && shown.contains(": load test"), "{shown}");
    let table = store.redlock(&["status", "X", "-k", "Y"]).run().expect(0).stdout;
    assert!(table.contains("reserved") && table.contains("load test"), "{table}");
    let refused = store.redlock(&["run", "X", "--", "true"]).run().expect(75);
    assert!(refused.line().starts_with(&format!("redlock: 'X' is {phrase}")), "{refused:?}");
    store.redlock(&["release", "X", "--token", token.trim()]).run().expect(0);
    store.redlock(&["run", "X", "--", "true"]).run().expect(0);
}
