"""From start to end of `redlock run -- true`, against the same under flock(1) and `etcdctl lock`."""

import shutil

from bench import REDLOCK, median, milliseconds, run

PAIRS = 300
ETCD_PAIRS = 40


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
    bench.etcd()
    flock = [shutil.which("flock"), "-n", bench.path("flock"), "true"]
    etcdctl = [shutil.which("etcdctl"), "lock", "X", "true"]
    on = lambda url: [REDLOCK, "run", "-S", url, "-k", "X", "--", "true"]
    bench.row("redlock run -- true, Redis", *pairs(bench, on(redis), flock, PAIRS), "ms", 2.0, "flock")
    bench.row("redlock run -- true, local:", *pairs(bench, on(local), flock, PAIRS), "ms", 1.5, "flock")
    bench.row("redlock run -- true, Redis", *pairs(bench, on(redis), etcdctl, ETCD_PAIRS), "ms", 0.25, "etcdctl")


run(measure)
