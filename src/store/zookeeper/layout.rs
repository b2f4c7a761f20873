//! The paths of the locks: those that `Lock` of kazoo and `InterProcessMutex` of Curator have.

use percent_encoding::percent_decode_str;

use super::contender::Contender;
use crate::lock::Key;
use crate::store::queue::ClusterAddress;

/// Where ZooKeeper is, and how to log in there. User and password are those of the scheme "digest".
pub type ZooKeeperAddress = ClusterAddress<NodeLayout>;

/// Where the nodes of the locks are.
///
/// The lock X is the node `/X` below the chroot, and a/b is `/a/b`, so that a key is the path that other programs know.
/// Characters that ZooKeeper does not allow in a path are written with percent signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    /// Empty, or a path.
    chroot: String,
}

/// The node that ZooKeeper keeps for itself.
const RESERVED: &str = "zookeeper";

impl NodeLayout {
    /// Below this path, which begins without a slash; `None` for one that cannot be.
    pub fn below(chroot: &str) -> Option<NodeLayout> {
        if chroot.is_empty() {
            return Some(NodeLayout { chroot: String::new() });
        }
        let mut parts = chroot.split('/');
        let is_allowed = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(is_plain);
        let is_path = parts.all(is_allowed) && chroot.split('/').next() != Some(RESERVED);
        is_path.then(|| NodeLayout { chroot: format!("/{chroot}") })
    }

    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// The node whose children are the holders and waiters of a lock.
    pub fn folder(&self, key: &Key) -> String {
        let mut path = self.chroot.clone();
        for (place, part) in key.as_str().split('/').enumerate() {
            path.push('/');
            path.push_str(&encode(part, path == "/" && place == 0));
        }
        path
    }

    /// The lock that this node is; `None` where no lock can be.
    pub fn key(&self, folder: &str) -> Option<Key> {
        let path = folder.strip_prefix(&self.chroot)?.strip_prefix('/')?;
        let parts: Option<Vec<String>> = path.split('/').map(decode).collect();
        let key: Key = parts?.join("/").parse().ok()?;
        (self.folder(&key) == folder).then_some(key)
    }

    /// The nodes that have to be there before a child of `folder` can be, from the top.
    pub fn above(folder: &str) -> impl Iterator<Item = &str> {
        let slashes = folder.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        slashes.chain([folder.len()]).map(|end| &folder[..end])
    }
}

fn encode(part: &str, is_first: bool) -> String {
    // Such a sign stands nowhere else without two digits behind it.
    if part.is_empty() {
        return "%".to_owned();
    }
    let mut encoded = String::with_capacity(part.len());
    let is_odd =
        matches!(part, "." | "..") || is_first && part == RESERVED || Contender::parse(part).is_some();
    let last = part.char_indices().next_back().map_or(0, |(at, _)| at);
    for (at, c) in part.char_indices() {
        if c != '%' && is_plain(c) && !(is_odd && at == last) {
            encoded.push(c);
        } else {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes).bytes();
            encoded.extend(bytes.map(|byte| format!("%{byte:02X}")));
        }
    }
    encoded
}

fn decode(part: &str) -> Option<String> {
    if part == "%" {
        return Some(String::new());
    }
    percent_decode_str(part).decode_utf8().ok().map(|part| part.into_owned())
}

/// ZooKeeper allows it in a path: PathUtils.validatePath, which looks at UTF-16.
fn is_plain(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[test]
fn every_key_is_a_path_of_its_own() -> Result<(), String> {
    let root = NodeLayout::below("").ok_or("the root")?;
    let below = NodeLayout::below("locks/ci").ok_or("a path")?;
    for (key, path) in [
        ("nightly-backup", "/nightly-backup"),
        ("a b/ü*?", "/a b/ü*?"),
        ("/a//b/", "/%/a/%/b/%"),
        ("../.", "/.%2E/%2E"),
        ("100%", "/100%25"),
        ("%", "/%25"),
        ("🔒", "/%F0%9F%94%92"),
        ("X/a__lock__0000000001", "/X/a__lock__000000000%31"),
    ] {
        let key: Key = key.parse()?;
        assert_eq!(root.folder(&key), path);
        assert_eq!(below.folder(&key), format!("/locks/ci{path}"));
        assert_eq!((root.key(path), below.key(&below.folder(&key))), (Some(key.clone()), Some(key)));
    }
    let reserved: Key = "zookeeper/quota".parse()?;
    assert_eq!(root.folder(&reserved), "/zookeepe%72/quota");
    assert_eq!(below.folder(&reserved), "/locks/ci/zookeeper/quota");
    for other in ["/zookeeper/quota", "", "/", "/%2", "/a%41", "/locks"] {
        assert_eq!(root.key(other).filter(|_| other != "/locks"), None, "{other}");
        assert_eq!(below.key(other), None, "{other}");
    }
    let above: Vec<&str> = NodeLayout::above("/locks/ci/X").collect();
    assert_eq!(above, ["/locks", "/locks/ci", "/locks/ci/X"]);
    Ok(())
}
