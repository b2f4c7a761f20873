"""What redlock and its guard occupy while a job runs: PSS, the share of memory that is theirs."""

import time

from bench import REDLOCK, children, eventually, run


def pss(pid):
    for line in open(f"/proc/{pid}/smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def measure(bench):
    for name, url in (("redis", bench.redis()), ("local", bench.local())):
        job = bench.start([REDLOCK, "run", "-S", url, "-k", "X", "--ttl", "3s", "--", "sleep", "300"])
        eventually("the guard runs", lambda: bool(children(job.pid)) and bool(children(children(job.pid)[0])))
        most = 0
        for _ in range(30):
            time.sleep(0.1)
            most = max(most, sum(map(pss, (job.pid, children(job.pid)[0]))))
        # Beside another one it would have a smaller share.
        job.terminate()
        job.wait()
        bench.figure(f"PSS of redlock and its guard, {name}", most / 1024, "MiB", 8)


run(measure)
