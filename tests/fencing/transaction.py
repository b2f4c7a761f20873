#!/usr/bin/env python3
"""Changes a total in the database that has the locks. The command line reads the old total and prints the new one."""
import os
import subprocess
import sys

import psycopg

with psycopg.connect(autocommit=True) as connection:
    total = connection.execute("select total from ledger where id = 1").fetchone()[0]
    total = int(subprocess.run(sys.argv[1:], input=f"{total}\n", stdout=subprocess.PIPE, text=True, check=True, close_fds=False).stdout)
    try:
        with connection.transaction():
            connection.execute(
                "select redlock.fenced(%s, %s)", (os.environ["REDLOCK_KEY"], int(os.environ["REDLOCK_FENCE"]))
            )
            connection.execute("update ledger set total = %s where id = 1", (total,))
    except psycopg.errors.ObjectNotInPrerequisiteState:
        sys.exit("transaction.py: a later holder of the lock is at work; nothing was written")
