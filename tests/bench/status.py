"""`status` of many locks for which many wait, beside many other keys of one Redis."""

import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from bench import REDLOCK, eventually, run

OTHERS, LOCKS, WAITERS, QUEUES = 3_000_000, 10_000, 1_000, 200
FILL = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'other:' .. i, i) end"


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

    def time_of(*arguments):
        took = []
        for _ in range(20):
            start = time.monotonic()
            redlock(*arguments)
            took.append((time.monotonic() - start) * 1000)
        return statistics.median(took)

    bench.figure("status of 10,000 locks", time_of("status"), "ms", 200)
    bench.figure("status of one of them", time_of("status", "job7"), "ms", 50)
    bench.redis_cli("CONFIG", "SET", "slowlog-log-slower-than", "5000")
    bench.redis_cli("SLOWLOG", "RESET")
    redlock("status")
    bench.figure("commands of it that take more than 5 ms", int(bench.redis_cli("SLOWLOG", "LEN")), "", 0)


run(measure)
