"""From the end of one job to the start of the next waiter's, against flock(1), `etcdctl lock` and a lock of kazoo."""

import os
import subprocess

from bench import HERE, REDLOCK, eventually, median, percentile, run

ROUNDS = {1: 60, 20: 10, 100: 5}


class System:
    """One way to hold a lock: the command for a job, and how many wait for the lock now."""

    def __init__(self, command, waiting, in_order):
        self.command = command
        self.waiting = waiting
        self.in_order = in_order


def handovers(bench, system, count):
    """Milliseconds between the jobs of `count` waiters that stand behind one holder."""
    log, gate = bench.path("log"), bench.path("gate")
    if os.path.exists(log):
        os.remove(log)
    job = lambda number, *more: system.command([bench.path("job"), log, str(number), *more])
    processes = [bench.start(job(0, gate))]
    hold = opened(gate)
    for number in range(1, count + 1):
        processes.append(bench.start(job(number)))
        eventually(f"{number} wait", lambda: system.waiting() == number)
    os.close(hold)
    for process in processes:
        process.wait(timeout=120)
        bench.processes.remove(process)
    jobs = sorted((tuple(map(int, line.split())) for line in open(log)), key=lambda job: job[1])
    order = [number for number, _, _ in jobs]
    assert sorted(order) == list(range(count + 1)), f"{len(jobs)} jobs ran, not {count + 1}"
    assert not system.in_order or order == sorted(order), f"not in the order of arrival: {order}"
    return [(start - end) / 1e6 for (_, _, end), (_, start, _) in zip(jobs, jobs[1:])]


def opened(gate):
    """The writing end of the fifo, as soon as the holder's job reads from it."""
    ends = []

    def has_reader():
        try:
            ends.append(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    eventually("the holder's job runs", has_reader)
    return ends[0]


def blocked_on(path):
    """How many processes wait for flock(2) on a file: see proc_locks(5)."""
    inode = f":{os.stat(path).st_ino}"
    lines = (line.split() for line in open("/proc/locks"))
    return sum("->" in line and any(field.endswith(inode) for field in line) for line in lines)


def measure(bench):
    subprocess.run(["cc", "-O1", "-o", bench.path("job"), os.path.join(HERE, "job.c")], check=True)
    os.mkfifo(bench.path("gate"))
    file = bench.path("flock")
    open(file, "w").close()
    redis, local, etcd, zookeeper = bench.redis(), bench.local(), bench.etcd(), bench.zookeeper()

    def redlock(url):
        command = [REDLOCK, "run", "-S", url, "-k", "X", "--wait", "--"]
        return System(lambda job: [*command, *job], lambda: bench.waiters(url, "X"), in_order=True)

    systems = {
        "flock": System(lambda job: ["flock", file, *job], lambda: blocked_on(file), in_order=False),
        "etcdctl": System(
            lambda job: ["etcdctl", "lock", "X", "--", *job],
            lambda: bench.etcd_count("X/") - 1,
            in_order=True,
        ),
        "kazoo": System(
            lambda job: bench.kazoo("K", job),
            lambda: bench.waiters(zookeeper, "K"),
            in_order=True,
        ),
        "redis": redlock(redis),
        "local": redlock(local),
        "etcd": redlock(etcd),
        "zookeeper": redlock(zookeeper),
    }
    for count, rounds in ROUNDS.items():
        figures = {name: [] for name in systems}
        for turn in range(rounds + (count == 1)):
            for name, system in systems.items():
                took = handovers(bench, system, count)
                # The first one of all warms up.
                if count > 1 or turn > 0:
                    figures[name] += took
        p50 = {name: median(values) for name, values in figures.items()}
        p99 = {name: percentile(values, 0.99) for name, values in figures.items()}
        for ours in ("redis", "local"):
            bench.row(f"handover p50, {count} waiting, {ours}", p50[ours], p50["flock"], "ms", 1.5, "flock")
            bench.row(f"handover p99, {count} waiting, {ours}", p99[ours], p99["flock"], "ms", 3.0, "flock")
            bench.row(f"handover p50, {count} waiting, {ours}", p50[ours], p50["etcdctl"], "ms", 1.0, "etcdctl")
            bench.row(f"handover p99, {count} waiting, {ours}", p99[ours], p99["etcdctl"], "ms", 1.0, "etcdctl")
        for ours, peer in (("etcd", "etcdctl"), ("zookeeper", "kazoo")):
            bench.row(f"handover p50, {count} waiting, {ours}", p50[ours], p50[peer], "ms", 1.0, peer)
            bench.row(f"handover p99, {count} waiting, {ours}", p99[ours], p99[peer], "ms", 1.0, peer)


run(measure)
