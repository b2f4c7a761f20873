//! Readers of what others wrote, for random input: none of them may panic. The unit tests run each for a moment; tests/fuzz
//! has the same readers as targets of cargo-fuzz, for hours.

use crate::job::read_packet;
use crate::lock::{DurationText, Key};
use crate::options::read_text;
use crate::session::read_outer;
use crate::store::{ServerUrl, replies};

/// A reader of what others wrote.
pub struct FuzzTarget {
    pub name: &'static str,
    /// Input that makes sense, to be changed at random.
    pub samples: &'static [&'static [u8]],
    pub read: fn(&[u8]),
}

/// All readers. Each target of cargo-fuzz has the name of one.
pub const TARGETS: &[FuzzTarget] = &[
    #[cfg(feature = "redis")]
    FuzzTarget {
        name: "redis_reply",
        samples: &[
            b"*2\r\n$7\r\ngranted\r\n:1700000000000000\r\n",
            b"*8\r\n$4\r\nbusy\r\n:1\r\n*6\r\n$2\r\n{}\r\n$1\r\n5\r\n$1\r\n1\r\n:900\r\n$4\r\n1000\r\n$0\r\n\r\n:2\r\n$3\r\n7-a\r\n:1\r\n:0\r\n:3\r\n",
            b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:6379\r\n",
            b"-MOVED 12182 127.0.0.1:6381\r\n",
            b"%1\r\n+a\r\n~2\r\n,1.5\r\n#t\r\n_\r\n",
        ],
        read: |bytes| replies::redis(bytes, &["a", "b"].map(|key| key.parse::<Key>().expect("a key"))),
    },
    #[cfg(feature = "zookeeper")]
    FuzzTarget {
        name: "jute",
        samples: &[
            b"\0\0\0\x06/X/a-1\0\0\0\x01\0\0\0\0\0\0\0\x07",
            b"\0\0\0\x02\0\0\0\x01a\0\0\0\x01b\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04",
            b"\0\0\0\x01\0\0\0\0\0\0\0\0\x02/X\xff\xff\xff\xff\x01\xff\xff\xff\xff",
            br#"{"redlock":true,"host":"a","pid":1,"min_hold":5,"granted":3}"#,
        ],
        read: replies::zookeeper,
    },
    #[cfg(feature = "etcd")]
    FuzzTarget {
        name: "etcd_answer",
        samples: &[
            b"\x0a\x02\x18\x07\x12\x10\x0a\x03X/1\x10\x05\x2a\x02{}\x30\x09",
            b"\x0a\x02\x18\x07\x10\x01\x1a\x12\x0a\x10\x12\x0e\x0a\x03X/1\x10\x05\x2a\x02{}\x30\x09",
            br#"{"host":"a","pid":1,"granted":3,"min_hold":5,"alone":true}"#,
        ],
        read: replies::etcd,
    },
    FuzzTarget {
        name: "url",
        samples: &[
            b"redis://user:pw@host:6379/1",
            b"redis+sentinel://a:1,b:2/main/0",
            b"redis+cluster://[::1]:7000,b",
            b"etcds://u:p@a:2379,b",
            b"zk://a,b:2181/chroot",
            b"local:/var/lib/locks.db",
        ],
        read: |bytes| text(bytes, |url| _ = ServerUrl::parse(&[url]).map(|url| url.has_password())),
    },
    FuzzTarget {
        name: "duration",
        samples: &[b"500ms", b"30s", b"1h30m", b"0", b"18446744073709551615d"],
        read: |bytes| {
            text(bytes, |text| {
                if let Ok(duration) = text.parse::<DurationText>() {
                    let _ = duration.to_string();
                }
            })
        },
    },
    FuzzTarget {
        name: "configuration",
        samples: &[
            b"server = \"redis://a\"\nttl = \"30s\"\nwait = true\n[keys.\"ci-*\"]\npermits = 3\n",
            b"[servers.main]\nserver = [\"redis://a\", \"redis://b\"]\n[profiles.x]\nserver = \"main\"\n",
        ],
        read: |bytes| text(bytes, read_text),
    },
    FuzzTarget {
        name: "guard_line",
        samples: &[b"\0\x01\x03KEY\x01a\x05\x06\x05\x06\x05\x06\x01", b"\x01\x05\x06\x05\x06\x05\x06", b"\x02\x1e"],
        read: read_packet,
    },
    FuzzTarget {
        name: "outer_locks",
        samples: &[
            br#"[{"key":"a","token":"68413f2f-8e0b-49a8-8a46-e268c50c52f7","fence":1,"guard":2,"pid_namespace":3}]"#,
            b"[]",
        ],
        read: |bytes| text(bytes, read_outer),
    },
];

/// Bytes that are not UTF-8 never reach a reader of text.
fn text(bytes: &[u8], read: impl Fn(&str)) {
    let _ = std::str::from_utf8(bytes).map(read);
}

/// Gives the input to the reader of this name.
///
/// # Panics
/// Panics without such a reader.
pub fn read(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no reader has the name {name}")).read)(bytes);
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::thread;
    use std::time::{Duration, Instant};

    use fastrand::Rng;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(300);
    const LONGEST: usize = 4096;

    fn changed(sample: &[u8], random: &mut Rng) -> Vec<u8> {
        let mut bytes = sample.to_vec();
        for _ in 0..random.usize(0..8) {
            let at = random.usize(..=bytes.len());
            match random.u8(..5) {
                0 => bytes.insert(at, random.u8(..)),
                1 => bytes.truncate(at),
                2 => bytes.extend_from_within(at..),
                3 if at < bytes.len() => _ = bytes.remove(at),
                _ if at < bytes.len() => bytes[at] = random.u8(..),
                _ => {}
            }
            bytes.truncate(LONGEST);
        }
        bytes
    }

    fn input(samples: &[&[u8]], random: &mut Rng) -> Vec<u8> {
        if random.u8(..4) == 0 {
            return (0..random.usize(..64)).map(|_| random.u8(..)).collect();
        }
        changed(samples[random.usize(..samples.len())], random)
    }

    #[test]
    fn no_reader_panics() {
        let run = |target: &FuzzTarget| {
            let (mut random, end) = (Rng::new(), Instant::now() + MOMENT);
            while Instant::now() < end {
                let bytes = input(target.samples, &mut random);
                let name = target.name;
                assert!(
                    catch_unwind(|| (target.read)(&bytes)).is_ok(),
                    "{name}: \"{}\"",
                    bytes.escape_ascii()
                );
            }
        };
        thread::scope(|threads| TARGETS.iter().for_each(|target| _ = threads.spawn(|| run(target))));
    }

    #[test]
    fn each_reader_is_a_target_of_cargo_fuzz() {
        let manifest = include_str!("../tests/fuzz/Cargo.toml");
        for FuzzTarget { name, .. } in TARGETS {
            assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
        }
    }
}
