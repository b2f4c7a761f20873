"""From the end of one job to the start of the next waiter's, against flock(1) and `etcdctl lock`."""

import os
import subprocess
import time

from bench import HERE, REDLOCK, eventually, median, percentile, run

ROUNDS = {1: 40, 20: 4, 100: 2}


def handovers(bench, command, count, in_line):
    """Milliseconds between the jobs of `count` waiters that stand behind one holder."""
    log, gate = bench.path("log"), bench.path("gate")
    for path in (log, gate):
        if os.path.exists(path):
            os.remove(path)
    held = bench.path("held")
    if os.path.exists(held):
        os.remove(held)
    wait = f"touch {held}; while [ ! -e {gate} ]; do sleep 0.01; done; exec {bench.path('job')} {log}"
    holder = bench.start(command(["sh", "-c", wait]))
    eventually("the holder runs", lambda: os.path.exists(held))
    waiters = [bench.start(command([bench.path("job"), log])) for _ in range(count)]
    in_line(count, waiters)
    open(gate, "w").close()
    for process in [holder, *waiters]:
        process.wait(timeout=120)
        bench.processes.remove(process)
    lines = sorted(tuple(map(int, line.split())) for line in open(log))
    assert len(lines) == count + 1, f"{len(lines)} jobs ran, not {count + 1}"
    return [(start - end) / 1e6 for (_, end), (start, _) in zip(lines, lines[1:])]


def asleep(process):
    """Whether a waiter has come to rest: flock(1) and etcdctl tell nobody that they wait."""
    try:
        return open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "S"
    except OSError:
        return False


def measure(bench):
    subprocess.run(["cc", "-O1", "-o", bench.path("job"), os.path.join(HERE, "job.c")], check=True)
    redis, local = bench.redis(), bench.local()
    bench.etcd()

    def rest(count, waiters):
        eventually("all wait", lambda: all(map(asleep, waiters)))
        time.sleep(0.3 + count / 100)

    def queue(url):
        return lambda count, _: eventually("all wait", lambda: bench.waiters(url, "X") == count)

    on = lambda url: lambda job: [REDLOCK, "run", "-S", url, "-k", "X", "--wait", "--", *job]
    systems = {
        "flock": (lambda job: ["flock", bench.path("flock"), *job], rest),
        "etcdctl": (lambda job: ["etcdctl", "lock", "X", *job], rest),
        "redis": (on(redis), queue(redis)),
        "local": (on(local), queue(local)),
    }
    for count, rounds in ROUNDS.items():
        figures = {name: [] for name in systems}
        for _ in range(rounds):
            for name, (command, in_line) in systems.items():
                figures[name] += handovers(bench, command, count, in_line)
        p50 = {name: median(values) for name, values in figures.items()}
        p99 = {name: percentile(values, 0.99) for name, values in figures.items()}
        for ours in ("redis", "local"):
            bench.row(f"handover p50, {count} waiting, {ours}", p50[ours], p50["flock"], "ms", 1.5, "flock")
            bench.row(f"handover p99, {count} waiting, {ours}", p99[ours], p99["flock"], "ms", 3.0, "flock")
            bench.row(f"handover p50, {count} waiting, {ours}", p50[ours], p50["etcdctl"], "ms", 1.0, "etcdctl")


run(measure)
