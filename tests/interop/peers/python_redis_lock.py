"""python-redis-lock: takes and releases the lock NAME, in Redis lock:NAME, as its stdin says."""

import logging
import sys

from redis import Redis
from redis_lock import Lock, NotAcquired

logging.disable()
port, name, ttl = sys.argv[1:]
lock = Lock(Redis(port=int(port)), name, expire=int(ttl))

for line in sys.stdin:
    if line == "take\n":
        done = lock.acquire(blocking=False)
    elif line == "wait\n":
        done = lock.acquire()
    else:
        try:
            lock.release()
            done = True
        except NotAcquired:
            done = False
    print("yes" if done else "no", flush=True)
