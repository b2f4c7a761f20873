//! A Redis Cluster.

use std::time::Duration;

use super::eventually;
use super::port::free_port;
use super::redis::Redis;

/// A Redis Cluster of a test's own: three masters, and a replica of each.
pub struct Cluster {
    pub servers: Vec<Redis>,
    /// Those that a test killed or paused.
    gone: Vec<usize>,
}

/// How long a server has to be silent to be replaced, in milliseconds.
const NODE_TIMEOUT: &str = "700";

/// The options of a server in a cluster. Its bus would otherwise be on its port + 10000, which may not exist.
pub fn in_cluster(bus: &str) -> [&str; 4] {
    ["--cluster-enabled", "yes", "--cluster-port", bus]
}

impl Cluster {
    pub fn start() -> Cluster {
        let server = || {
            let bus = free_port().to_string();
            let mut options = in_cluster(&bus).to_vec();
            options.extend([
                "--cluster-node-timeout",
                NODE_TIMEOUT,
                "--cluster-replica-validity-factor",
                "0",
            ]);
            options.extend(["--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"]);
            Redis::with(&options)
        };
        let cluster = Cluster { servers: (0..6).map(|_| server()).collect(), gone: Vec::new() };
        cluster.meet();
        cluster
    }

    fn meet(&self) {
        let (masters, replicas) = self.servers.split_at(3);
        let nodes = masters[0].cli(&["cluster", "nodes"]);
        let address = nodes.split_whitespace().nth(1).unwrap_or_default();
        let (_, bus) = address.rsplit_once('@').expect("the port of the bus");
        for (index, server) in self.servers.iter().enumerate() {
            server.cli(&["cluster", "set-config-epoch", &(index + 1).to_string()]);
            eventually(Duration::from_secs(60), "a server of the cluster", || {
                let known = masters[0].cli(&["cluster", "nodes"]);
                let is_known = known.lines().filter(|node| !node.contains("handshake")).count() > index;
                if !is_known {
                    // One that is not answered within a second is forgotten, and a busy machine may take that long.
                    server.cli(&["cluster", "meet", "127.0.0.1", &masters[0].port.to_string(), bus]);
                }
                is_known
            });
        }
        for (index, server) in masters.iter().enumerate() {
            let (from, to) = (index * 16384 / 3, (index + 1) * 16384 / 3 - 1);
            server.cli(&["cluster", "addslotsrange", &from.to_string(), &to.to_string()]);
        }
        for (replica, master) in replicas.iter().zip(masters) {
            let id = master.cli(&["cluster", "myid"]);
            eventually(Duration::from_secs(60), "a replica of its own", || {
                replica.cli(&["cluster", "replicate", &id]) == "OK"
            });
        }
        for server in &self.servers {
            eventually(Duration::from_secs(60), "the cluster is up", || {
                let nodes = server.cli(&["cluster", "nodes"]);
                server.cli(&["cluster", "info"]).contains("cluster_state:ok")
                    && nodes.matches("slave").count() == 3
                    && nodes.matches("connected").count() == 6
                    && !nodes.contains("disconnected")
            });
        }
        for replica in replicas {
            eventually(Duration::from_secs(60), "the replicas have the data", || {
                replica.cli(&["info", "replication"]).contains("master_link_status:up")
            });
        }
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+cluster://{}", hosts[..3].join(","))
    }

    /// The index of the server that has the key now.
    pub fn master_of(&self, key: &str) -> usize {
        let mut found = None;
        eventually(Duration::from_secs(20), "a master for the key", || {
            let mut here = (0..self.servers.len()).filter(|index| !self.gone.contains(index));
            found = here.find(|index| {
                let answer = self.servers[*index].cli(&["get", key]);
                !answer.contains("MOVED") && !answer.contains("CLUSTERDOWN") && !answer.contains("LOADING")
            });
            found.is_some()
        });
        found.expect("just found")
    }

    pub fn kill_master_of(&mut self, key: &str) -> usize {
        let index = self.master_of(key);
        self.servers[index].kill();
        self.gone.push(index);
        index
    }

    pub fn pause_master_of(&mut self, key: &str) -> usize {
        let index = self.master_of(key);
        self.servers[index].pause();
        self.gone.push(index);
        index
    }

    /// Moves the slot of the key, and all that is in it, to another master, as redis-cli does it.
    pub fn migrate(&self, key: &str, during: impl FnOnce()) {
        let from = self.master_of(key);
        let to = (0..3).find(|index| *index != from).expect("another master");
        let (source, target) = (&self.servers[from], &self.servers[to]);
        let slot = source.cli(&["cluster", "keyslot", key]);
        let (from_id, to_id) = (source.cli(&["cluster", "myid"]), target.cli(&["cluster", "myid"]));
        assert_eq!(target.cli(&["cluster", "setslot", &slot, "importing", &from_id]), "OK");
        assert_eq!(source.cli(&["cluster", "setslot", &slot, "migrating", &to_id]), "OK");
        during();
        let keys = source.cli(&["cluster", "getkeysinslot", &slot, "100"]);
        let port = target.port.to_string();
        let migrate = ["migrate", "127.0.0.1", &port, "", "0", "5000", "keys"];
        let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
        if !keys.is_empty() {
            assert_eq!(source.cli(&[&migrate[..], &keys].concat()), "OK");
        }
        for server in [target, source] {
            assert_eq!(server.cli(&["cluster", "setslot", &slot, "node", &to_id]), "OK");
        }
    }
}
