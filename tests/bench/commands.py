"""Redis commands per handover, by INFO commandstats: those that clients send, and those that scripts call."""

import subprocess

from bench import REDLOCK, SENT, commands, eventually, run


def measure(bench):
    redis = bench.redis()
    # The server learns the scripts here.
    subprocess.run([REDLOCK, "run", "-S", redis, "-k", "X", "--", "true"], check=True, env=bench.environment)
    watched = bench.path("monitor")
    monitor = bench.start(["redis-cli", "-p", str(bench.redis_port), "monitor"], stdout=open(watched, "w"))
    eventually("the server is watched", lambda: "OK" in open(watched).read())
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
            bench.processes.remove(process)
        sent, called = (after - before for after, before in zip(commands(bench), (sent, called)))
        # From the release of the holder on; that of the last waiter hands over to nobody.
        sent -= 1
        counted.append(sent / count)
        bench.figure(f"sent per handover, {count} waiting", sent / count, "", 6)
        bench.figure("  with those that scripts call", called / count, "")
    bench.figure("  most less fewest sent, 1 to 200 waiting", max(counted) - min(counted), "", 0.1)
    monitor.terminate()
    # "seconds [database client] "command" ...", with "lua" for the client when a script calls it.
    lines = (line.split() for line in open(watched) if " lua] " not in line and '"' in line)
    others = {line[3].strip('"').lower() for line in lines} - SENT - {"info", "exists", "zcard"}
    assert not others, f"clients send {others} too, which counts as called by scripts"


run(measure)
