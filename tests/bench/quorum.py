"""A quorum of five servers, all healthy and with one hung, against npm redlock and the Rust crate rslock on the same.

A peer counts twice: as a process that takes the lock, gives it back and ends, which is what `redlock run` is; and
as a take and a release in a process that runs and is connected, which a command cannot be.
"""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

from bench import HERE, REDLOCK, median, milliseconds, run

PAIRS = 200
PEER_PAIRS = 40
SERVERS = 5
# A peer that did not answer until then hangs with the server.
PATIENCE = 5.0

ROOT = os.path.join(HERE, "../..")
PEERS = {
    "npm redlock": [shutil.which("node"), os.path.join(ROOT, "tests/interop/peers/node_redlock.js")],
    "rslock": [os.path.join(ROOT, "target/peers/bin/rslock-peer")],
}


class Member:
    """One server, which may hang."""

    def __init__(self, port, process):
        self.port = port
        self.process = process

    def hang(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        # It has answered everything that came before.
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(100) == b"+PONG\r\n"


class Peer:
    """Another implementation, which takes and releases the lock when told."""

    def __init__(self, bench, name, members):
        command = [*PEERS[name], ",".join(str(member.port) for member in members), "X", "30"]
        environment = {**bench.environment, "NODE_PATH": os.path.join(ROOT, "target/peers/node_modules")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env=environment, **pipes)
        bench.processes.append(self.process)

    def told(self, order):
        self.process.stdin.write(order)
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        return bool(ready) and self.process.stdout.readline() == b"yes\n"

    def pair(self):
        """Milliseconds of one take and its release; None when it did not get the lock."""
        start = time.perf_counter_ns()
        if not (self.told(b"take\n") and self.told(b"release\n")):
            return None
        return (time.perf_counter_ns() - start) / 1e6

    def end(self, bench):
        self.process.stdin.close()
        self.process.wait(timeout=10)
        bench.processes.remove(self.process)

    def kill(self, bench):
        self.process.kill()
        self.process.wait()
        bench.processes.remove(self.process)


def whole(bench, name, members):
    """Milliseconds from the start to the end of a peer that takes and gives back the lock."""
    start = time.perf_counter_ns()
    peer = Peer(bench, name, members)
    assert peer.pair(), f"{name} does not get the lock; tests/run installs it"
    peer.end(bench)
    return (time.perf_counter_ns() - start) / 1e6


def against(bench, name, command, members):
    ours, theirs = [], []
    for turn in range(PEER_PAIRS + 3):
        figures = milliseconds(command, bench.environment), whole(bench, name, members)
        if turn >= 3:
            ours.append(figures[0])
            theirs.append(figures[1])
    bench.row("run -- true, and the same by the peer", median(ours), median(theirs), "ms", None, name)


def connected(bench, name, members):
    peer = Peer(bench, name, members)
    warm = [peer.pair() for _ in range(PEER_PAIRS + 3)][3:]
    assert None not in warm, f"{name} does not get the lock"
    healthy = median(warm)
    members[0].hang()
    hung = [figure for figure in (peer.pair() for _ in range(3)) if figure is not None]
    bench.figure(f"{name}, connected: take and release", healthy, "ms")
    if hung:
        bench.row(f"{name}, connected, one of five hung", median(hung), healthy, "ms", None, "healthy")
    else:
        print(f"{name}, connected, one of five hung: no lock within {PATIENCE} s", flush=True)
    peer.kill(bench)
    members[0].go_on()
    for member in members:
        subprocess.run(["redis-cli", "-p", str(member.port), "del", "X"], stdout=subprocess.DEVNULL)


def measure(bench):
    members = [Member(*server) for server in bench.quorum(SERVERS)]
    servers = [argument for member in members for argument in ("-S", f"redis://127.0.0.1:{member.port}")]
    command = [REDLOCK, "run", *servers, "-k", "X", "--", "true"]
    one = [REDLOCK, "run", *servers[:2], "-k", "X", "--", "true"]
    figures = {"healthy": [], "hung": [], "one server": []}
    for turn in range(PAIRS + 10):
        figures["healthy"].append(milliseconds(command, bench.environment))
        figures["one server"].append(milliseconds(one, bench.environment))
        victim = members[turn % SERVERS]
        victim.hang()
        figures["hung"].append(milliseconds(command, bench.environment))
        victim.go_on()
    healthy, hung, one = (median(figures[name][10:]) for name in ("healthy", "hung", "one server"))
    bench.row("run -- true, quorum of 5, one hung", hung, healthy, "ms", 1.3, "healthy")
    bench.row("run -- true, quorum of 5", healthy, one, "ms", None, "1 server")
    for name in PEERS:
        if not shutil.which(PEERS[name][0] or ""):
            sys.exit(f"{name} is not installed; tests/run does that")
        against(bench, name, command, members)
        connected(bench, name, members)


run(measure)
