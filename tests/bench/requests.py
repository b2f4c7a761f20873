"""Requests of etcd and ZooKeeper per handover, as the servers count them, with the signs of life of those that wait."""

import os
import subprocess
import urllib.request

from bench import REDLOCK, eventually, run


def of_etcd(bench):
    """Messages that clients sent."""
    with urllib.request.urlopen(f"{bench.etcd_url}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("grpc_server_msg_received_total{"))


def of_zookeeper(bench):
    lines = (line.split() for line in bench.zookeeper_says("mntr").splitlines())
    return next(float(line[1]) for line in lines if line[:1] == ["zk_packets_received"])


def measure(bench):
    for name, url, requests in (("etcd", bench.etcd(), of_etcd), ("ZooKeeper", bench.zookeeper(), of_zookeeper)):
        command = [REDLOCK, "run", "-S", url, "-k", "X", "--wait", "--ttl", "60s", "--"]
        # Folders are made here.
        subprocess.run([*command, "true"], check=True, env=bench.environment)
        counted = []
        for count in (1, 20, 100):
            running, gate = bench.path(f"{name}{count}"), bench.path(f"gate{name}{count}")
            job = f"touch {running}; while [ ! -e {gate} ]; do sleep 0.01; done"
            holder = bench.start([*command, "sh", "-c", job])
            eventually("the holder runs", lambda: os.path.exists(running))
            waiters = [bench.start([*command, "true"]) for _ in range(count)]
            eventually("all wait", lambda: bench.waiters(url, "X") == count)
            before = requests(bench)
            open(gate, "w").close()
            for process in [holder, *waiters]:
                process.wait(timeout=60)
                bench.processes.remove(process)
            counted.append((requests(bench) - before) / count)
            bench.figure(f"requests per handover, {name}, {count} waiting", counted[-1], "")
        bench.figure(f"  most less fewest, {name}", max(counted) - min(counted), "", 2)


run(measure)
