"""What a waiter costs while nothing happens."""

import os
import time

from bench import REDLOCK, children, commands, eventually, run

WAITERS = 20
SECONDS = 30


def cpu_seconds(pids):
    """To the nanosecond, as the scheduler counts it: clock ticks of 10 ms would hide what a waiter uses."""
    tasks = (f"/proc/{pid}/task/{task}" for pid in pids for task in os.listdir(f"/proc/{pid}/task"))
    return sum(int(open(f"{task}/schedstat").read().split()[0]) for task in tasks) / 1e9


def measure(bench):
    redis, local = bench.redis(), bench.local()
    for name, url in (("redis", redis), ("local", local)):
        command = [REDLOCK, "run", "-S", url, "-k", "X", "--wait", "--", "sleep", "300"]
        holder = bench.start(command)
        eventually("the holder runs", lambda: bool(children(holder.pid)))
        waiters = [bench.start(command) for _ in range(WAITERS)]
        eventually("all wait", lambda: bench.waiters(url, "X") == WAITERS)
        time.sleep(6)
        pids = [pid for waiter in waiters for pid in (waiter.pid, *children(waiter.pid))]
        before, used = commands(bench)[0], cpu_seconds(pids)
        time.sleep(SECONDS)
        after, spent = commands(bench)[0], cpu_seconds(pids) - used
        if name == "redis":
            # The holder's own renewals are no waiter's.
            renewals = SECONDS / 10
            bench.figure("commands/s of an idle waiter, redis", (after - before - renewals) / SECONDS / WAITERS, "/s", 0.2)
        bench.figure(f"CPU of an idle waiter and its guard, {name}", 100 * spent / SECONDS / WAITERS, "%", 0.1)
        for process in [holder, *waiters]:
            process.terminate()
        for process in [holder, *waiters]:
            process.wait(timeout=30)


run(measure)
