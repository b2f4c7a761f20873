"""`status` of many locks for which many wait, beside many other keys of one Redis."""

import fcntl
import os
import pty
import statistics
import struct
import subprocess
import termios
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from bench import REDLOCK, children, eventually, run

OTHERS, LOCKS, WAITERS, QUEUES = 3_000_000, 10_000, 1_000, 200
FILL = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'other:' .. i, i) end"


def share_of_a_core(bench, url, seconds=20):
    """What `status --watch` takes of one, on a terminal of 200 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    bench.environment["TERM"] = "xterm-256color"

    def take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    watch = bench.start([REDLOCK, "status", "-S", url, "--watch"], stdin=theirs, stdout=theirs, preexec_fn=take_terminal)
    os.close(theirs)
    drawn = []

    def read():
        try:
            while text := os.read(ours, 65536):
                drawn.append(len(text))
        except OSError:
            pass

    threading.Thread(target=read, daemon=True).start()
    eventually("the first screen", lambda: sum(drawn) > 1000)

    def used():
        ticks = 0
        for pid in [watch.pid, *children(watch.pid)]:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    time.sleep(2)
    before = used()
    time.sleep(seconds)
    share = (used() - before) / seconds
    os.write(ours, b"q")
    watch.wait()
    return share


def measure(bench):
    url = bench.redis()
    step = OTHERS // 30
    for first in range(0, OTHERS, step):
        bench.redis_cli("EVAL", FILL, "0", str(first), str(first + step - 1))

    def redlock(*arguments):
        return subprocess.run([REDLOCK, *arguments, "-S", url], env=bench.environment, capture_output=True, check=True)

    def acquire(number):
        redlock("acquire", "-k", f"job{number}", "--ttl", "1h", "--label", f"job {number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(acquire, range(LOCKS)))
    for number in range(WAITERS):
        bench.start([REDLOCK, "run", "-S", url, "-k", f"job{number % QUEUES}", "--wait", "--", "true"])
    eventually("all wait", lambda: redlock("status").stdout.count(b"waiting ") == WAITERS, 120)

    bench.redis_cli("DEL", "redlock:{}:locks")
    start = time.monotonic()
    redlock("status", "--connect-timeout", "60s")
    bench.figure("status that completes a lost index", (time.monotonic() - start) * 1000, "ms")

    def time_of(*arguments):
        took = []
        for _ in range(20):
            start = time.monotonic()
            redlock(*arguments)
            took.append((time.monotonic() - start) * 1000)
        return statistics.median(took)

    bench.figure("status of 10,000 locks", time_of("status"), "ms", 200)
    bench.figure("status of one of them", time_of("status", "job7"), "ms", 50)
    bench.figure("status --watch, of a core", share_of_a_core(bench, url) * 100, "%", 5)
    bench.redis_cli("CONFIG", "SET", "slowlog-log-slower-than", "5000")
    bench.redis_cli("SLOWLOG", "RESET")
    redlock("status")
    bench.figure("commands of it that take more than 5 ms", int(bench.redis_cli("SLOWLOG", "LEN")), "", 0)


run(measure)
