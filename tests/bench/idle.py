"""What a waiter costs while nothing happens."""

import os
import time

from bench import REDLOCK, children, commands, eventually, run

WAITERS = 20
SECONDS = 30


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


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
        bench.figure(f"CPU of an idle waiter, {name}", 100 * spent / SECONDS / WAITERS, "%", 0.1)
        for process in [holder, *waiters]:
            process.terminate()
        for process in [holder, *waiters]:
            process.wait(timeout=30)


run(measure)
