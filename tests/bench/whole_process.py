"""From start to end of `redlock run -- true`, against the same under flock(1), `etcdctl lock` and a lock of kazoo."""

import shutil

from bench import REDLOCK, median, milliseconds, run

PAIRS = 300
FEW_PAIRS = 40


def pairs(bench, ours, peer, count):
    """Medians of both, measured in turn."""
    figures = ([], [])
    for turn in range(count + 10):
        for command, kept in zip((ours, peer), figures):
            took = milliseconds(command, bench.environment)
            if turn >= 10:
                kept.append(took)
    return [median(kept) for kept in figures]


def measure(bench):
    redis, local = bench.redis(), bench.local()
    etcd, zookeeper = bench.etcd(), bench.zookeeper()
    flock = [shutil.which("flock"), "-n", bench.path("flock"), "true"]
    etcdctl = [shutil.which("etcdctl"), "lock", "X", "true"]
    on = lambda url: [REDLOCK, "run", "-S", url, "-k", "X", "--", "true"]
    bench.row("redlock run -- true, Redis", *pairs(bench, on(redis), flock, PAIRS), "ms", 2.0, "flock")
    bench.row("redlock run -- true, local:", *pairs(bench, on(local), flock, PAIRS), "ms", 1.5, "flock")
    bench.row("redlock run -- true, Redis", *pairs(bench, on(redis), etcdctl, FEW_PAIRS), "ms", 0.25, "etcdctl")
    bench.row("redlock run -- true, etcd", *pairs(bench, on(etcd), etcdctl, FEW_PAIRS), "ms", 0.3, "etcdctl")
    kazoo = bench.kazoo("X", ["true"])
    bench.row("redlock run -- true, ZooKeeper", *pairs(bench, on(zookeeper), kazoo, FEW_PAIRS), "ms", 0.3, "kazoo")


run(measure)
