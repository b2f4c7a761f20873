"""What the measurements share: servers of their own, processes, and the rows that they print."""

import base64
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

REDLOCK = os.environ["REDLOCK_BIN"]
HERE = os.path.dirname(os.path.abspath(__file__))
KAZOO = os.path.join(HERE, "../interop/peers/kazoo_lock.py")
ZOOKEEPER_JARS = ["zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "metrics-core", "snappy-java"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def eventually(what, condition, limit=30.0):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"not within {limit} s: {what}")
        time.sleep(0.01)


class Bench:
    """A folder and servers, all gone at the end."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="redlock-bench-")
        self.processes = []
        self.missed = 0
        # No settings of the caller: neither REDLOCK_... nor a configuration file in the home directory.
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.folder}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, arguments, **options):
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, **options}
        process = subprocess.Popen(arguments, env=self.environment, **options)
        self.processes.append(process)
        return process

    def redis(self):
        self.redis_port = free_port()
        self.start(["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder])
        eventually("redis-server answers", lambda: "PONG" in self.redis_cli("ping"))
        return f"redis://127.0.0.1:{self.redis_port}"

    def quorum(self, count):
        """Independent servers: their ports and processes."""
        servers = []
        for _ in range(count):
            self.redis()
            servers.append((self.redis_port, self.processes[-1]))
        return servers

    def redis_cli(self, *arguments):
        command = ["redis-cli", "-p", str(self.redis_port), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def etcd(self):
        client, peer = free_port(), free_port()
        self.etcd_url = url = f"http://127.0.0.1:{client}"
        self.start(["etcd", "--data-dir", self.path("etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
                    "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync", "--log-level", "error"])
        self.environment["ETCDCTL_API"] = "3"
        self.environment["ETCDCTL_ENDPOINTS"] = url
        probe = ["etcdctl", "get", "x"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        eventually("etcd answers", lambda: subprocess.run(probe, env=self.environment, **quiet).returncode == 0)
        return f"etcd://127.0.0.1:{client}"

    def zookeeper(self):
        port = free_port()
        config = self.path("zookeeper.cfg")
        with open(config, "w") as file:
            file.write(f"tickTime=500\nmaxSessionTimeout=7200000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
                       f"4lw.commands.whitelist=srvr,mntr\ndataDir={self.path('zookeeper')}\nclientPort={port}\n")
        jars = ":".join(f"/usr/share/java/{name}.jar" for name in ZOOKEEPER_JARS)
        self.start(["java", "-Xmx256m", "-XX:+UseSerialGC", "-Dzookeeper.forceSync=no", "-cp", jars,
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", config])
        self.zookeeper_address = f"127.0.0.1:{port}"
        eventually("ZooKeeper answers", lambda: "Mode: " in self.zookeeper_says("srvr"))
        return f"zk://{self.zookeeper_address}"

    def zookeeper_says(self, word):
        """The answer to one of the words that a server understands without a session."""
        host, port = self.zookeeper_address.split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=2) as connection:
                connection.sendall(word.encode())
                return connection.makefile().read()
        except OSError:
            return ""

    def kazoo(self, key, job):
        """The command line of a job under a lock of kazoo."""
        return ["/usr/bin/python3", KAZOO, self.zookeeper_address, f"/{key}", "lock", *job]

    def etcd_count(self, prefix):
        """How many keys begin with this."""
        encoded = lambda text: base64.b64encode(text.encode()).decode()
        following = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        query = {"key": encoded(prefix), "range_end": encoded(following), "count_only": True}
        with urllib.request.urlopen(f"{self.etcd_url}/v3/kv/range", json.dumps(query).encode()) as reply:
            return int(json.load(reply).get("count", 0))

    def local(self):
        return f"local:{self.path('locks.db')}"

    def waiters(self, url, key):
        command = [REDLOCK, "-S", url, "status", "--json", key]
        status = json.loads(subprocess.run(command, capture_output=True, text=True, env=self.environment).stdout)
        return len(status[0]["waiters"])

    def row(self, what, ours, peer, unit, limit=None, peers_name=""):
        """Prints our figure, the peer's and the ratio; with a limit, whether it was reached."""
        ratio = ours / peer if peer else float("nan")
        verdict = ""
        if limit is not None:
            reached = ratio <= limit
            self.missed += not reached
            verdict = f"target <= {limit} x  {'reached' if reached else 'not reached'}"
        print(f"{what:44} {ours:9.3f} {unit:3} {peers_name:8} {peer:9.3f} {unit:3} ratio {ratio:5.2f}  {verdict}", flush=True)

    def figure(self, what, ours, unit, limit=None):
        verdict = ""
        if limit is not None:
            reached = ours <= limit
            self.missed += not reached
            verdict = f"target <= {limit} {unit}  {'reached' if reached else 'not reached'}"
        print(f"{what:44} {ours:9.3f} {unit:3} {verdict}", flush=True)


SILENT = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]


def milliseconds(arguments, environment):
    """From the start to the end of a process."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn(arguments[0], arguments, environment, file_actions=SILENT)
    _, status, _ = os.wait4(pid, 0)
    took = (time.perf_counter_ns() - start) / 1e6
    assert status == 0, arguments
    return took


def children(pid):
    return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]


# What clients send; all else is called by scripts.
SENT = {"eval", "evalsha", "subscribe", "unsubscribe", "ping", "auth", "select", "hello", "client|setinfo"}


def commands(bench):
    """Calls of commands since the server started: those that clients sent, and all."""
    lines = bench.redis_cli("info", "commandstats").split()
    stats = (line.removeprefix("cmdstat_").split(":calls=") for line in lines if line.startswith("cmdstat_"))
    calls = {name: int(rest.split(",")[0]) for name, rest in stats if name != "info"}
    return sum(count for name, count in calls.items() if name in SENT), sum(calls.values())


def run(measure):
    # A bench that is stopped stops its servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Bench() as bench:
        measure(bench)
        missed = bench.missed
    sys.exit(1 if missed else 0)


median = statistics.median


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
