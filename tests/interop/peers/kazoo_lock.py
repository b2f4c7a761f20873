"""Runs a command under a lock of kazoo: HOSTS PATH lock|read|write COMMAND [ARG]..."""

import subprocess
import sys

from kazoo.client import KazooClient

hosts, path, kind, *command = sys.argv[1:]
zookeeper = KazooClient(hosts, timeout=20)
zookeeper.start(60)
with {"lock": zookeeper.Lock, "read": zookeeper.ReadLock, "write": zookeeper.WriteLock}[kind](path, "kazoo"):
    subprocess.run(command)
zookeeper.stop()
