//! What others see of a command when it has no `--label`.

use std::fs;

use crate::harness::Store;

/// Neither they, nor the store, nor a message of redlock's own: arguments may be secret.
#[test]
fn arguments_are_nobodys_business() {
    let store = Store::local();
    let script = store.folder.path("backup.sh").display().to_string();
    fs::write(&script, "cat\n").expect("a script");
    for (command, label) in [
        (&["--", "/usr/bin/env", "-u", "canary", "cat"][..], "env"),
        (&["--", "sh", &script, "--password=canary"], "sh backup.sh"),
        (&["--", "sh", "-c", "cat; : canary"], "sh"),
        (&["--", "env", "PASSWORD=canary", "cat"], "env"),
        (&["-c", "--", "cat; : canary"], "sh -c"),
    ] {
        let args = [&["run", "-k", "X", "--leftovers", "kill", "-v"], command].concat();
        let holder = store.redlock(&args).open_stdin().spawn();
        store.await_holder("X");
        let shown = store.status("X");
        assert_eq!(shown["holders"][0]["label"], label, "{command:?}");
        let refused = store.redlock(&["run", "-k", "X", "--", "true", "canary"]).run().expect(75);
        assert!(refused.line().contains(&format!("\"{label}\"")), "{refused:?}");
        for file in fs::read_dir(store.folder.path("")).expect("the folder").flatten() {
            let bytes = fs::read(file.path()).expect("a file");
            assert!(!bytes.windows(6).any(|bytes| bytes == b"canary"), "{command:?}: {file:?}");
        }
        holder.signal(nix::sys::signal::Signal::SIGTERM);
        let ended = holder.finish();
        assert!(!ended.stderr.contains("canary"), "{ended:?}");
    }
    // What is left behind is spoken of.
    let left = ["run", "-k", "X", "--leftovers", "kill", "-v", "-c", "--", "sleep 60 >&- 2>&- & : canary"];
    let left = store.redlock(&left).run().expect(0);
    assert!(
        left.stderr.contains("'sh -c' left processes behind") && !left.stderr.contains("canary"),
        "{left:?}"
    );
}
