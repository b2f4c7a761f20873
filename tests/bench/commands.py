"""Redis commands per handover, by INFO commandstats: those that clients send, and those that scripts call."""

import subprocess

from bench import REDLOCK, commands, eventually, run

def measure(bench):
    redis = bench.redis()
    # The server learns the scripts here.
    subprocess.run([REDLOCK, "run", "-S", redis, "-k", "X", "--", "true"], check=True, env=bench.environment)
    counted = []
    for count in (1, 20, 100, 200):
        command = [REDLOCK, "run", "-S", redis, "-k", "X", "--wait", "--ttl", "60s", "--"]
        gate = bench.path(f"gate{count}")
        holder = bench.start([*command, "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.01; done"])
        eventually("the holder runs", lambda: bench.redis_cli("exists", "X").strip() == "1")
        waiters = [bench.start([*command, "true"]) for _ in range(count)]
        in_line = ["zcard", "redlock:{X}:queue:X"]
        eventually("all wait", lambda: bench.redis_cli(*in_line).strip() == str(count))
        sent, called = commands(bench)
        open(gate, "w").close()
        for process in [holder, *waiters]:
            process.wait(timeout=60)
        sent, called = (after - before for after, before in zip(commands(bench), (sent, called)))
        # The last one hands over to nobody.
        sent -= 1
        counted.append(sent / count)
        bench.figure(f"sent per handover, {count} waiting", sent / count, "", 6)
        bench.figure("  with those that scripts call", called / count, "")
    spread = max(counted) - min(counted)
    bench.figure("  difference between 1 and 200 waiting", spread, "", 0.1)


run(measure)
