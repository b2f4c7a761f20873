"""redis-py's Lock: takes and releases the lock NAME as its stdin says."""

import sys

from redis import Redis
from redis.exceptions import LockError

port, name, ttl = sys.argv[1:]
lock = Redis(port=int(port)).lock(name, timeout=int(ttl), blocking=False)

for line in sys.stdin:
    if line == "take\n":
        done = lock.acquire()
    else:
        try:
            lock.release()
            done = True
        except LockError:
            done = False
    print("yes" if done else "no", flush=True)
