"""From start to end of `redlock run KEY true`, in turn with the same under flock(1), `etcdctl lock` and a lock of kazoo, and
with the bare floor: a program that starts the command and waits for it."""

import os
import shutil
import subprocess

from bench import HERE, REDLOCK, median, milliseconds, run

PAIRS = 300
FEW_PAIRS = 40
WARM_UP = 10


def in_turn(bench, commands, count):
    """The times of each of the commands, by its name."""
    figures = {name: [] for name in commands}
    for turn in range(count + WARM_UP):
        for name, command in commands.items():
            took = milliseconds(command, bench.environment)
            if turn >= WARM_UP:
                figures[name].append(took)
    return figures


def flock(bench):
    return [shutil.which("flock"), "-n", bench.path("flock"), "true"]


def redlock(url):
    """As README writes it: the key is the first word."""
    return [REDLOCK, "run", "-S", url, "X", "true"]


def floor(bench):
    path = bench.path("floor")
    subprocess.run(["cc", "-O1", "-static", "-o", path, os.path.join(HERE, "floor.c")], check=True)
    return [path, "true"]


def compare(bench, ours, peers, count, limits=None):
    """Prints medians and minima of our commands and of each peer, and the ratios."""
    figures = in_turn(bench, ours | peers, count)
    for peer in peers:
        for name in ours:
            limit = (limits or {}).get(peer)
            bench.row(f"redlock run, {name}, median", median(figures[name]), median(figures[peer]), "ms", limit, peer)
            bench.row(f"redlock run, {name}, minimum", min(figures[name]), min(figures[peer]), "ms", None, peer)


def measure(bench):
    redis, etcd, zookeeper = redlock(bench.redis()), redlock(bench.etcd()), redlock(bench.zookeeper())
    etcdctl = {"etcdctl": [shutil.which("etcdctl"), "lock", "X", "true"]}
    ours = {"Redis": redis, "local:": redlock(bench.local())}
    compare(bench, ours, {"flock": flock(bench), "floor": floor(bench)}, PAIRS, {"flock": 1.2})
    compare(bench, {"Redis": redis}, etcdctl, FEW_PAIRS, {"etcdctl": 0.15})
    compare(bench, {"etcd": etcd}, etcdctl, FEW_PAIRS, {"etcdctl": 0.3})
    compare(bench, {"ZooKeeper": zookeeper}, {"kazoo": bench.kazoo("X", ["true"])}, FEW_PAIRS, {"kazoo": 0.3})


if __name__ == "__main__":
    run(measure)
