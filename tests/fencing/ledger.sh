#!/bin/sh
# Changes the total of a ledger. COMMAND reads the old total and prints the new one:
#
#     redlock run --key ledger -- ./ledger.sh COMMAND [ARG]...
#
# The table: create table ledger (id int primary key, total bigint not null, fence bigint not null default 0)
set -eu

sql() {
    psql -XqAt -v ON_ERROR_STOP=1 -v fence="$REDLOCK_FENCE" "$@"
}
refused() {
    echo "ledger.sh: a later holder of the lock is at work; nothing was written" >&2
    exit 1
}

# First the stamp, committed before anything is read: from here on no earlier holder can write.
stamped=$(echo "update ledger set fence = :fence where id = 1 and fence < :fence returning id" | sql)
[ -n "$stamped" ] || refused

total=$(echo "select total from ledger where id = 1" | sql)
total=$(echo "$total" | "$@")

# The stamp again, in the same statement as the change: whoever came since has put a larger one there.
written=$(echo "update ledger set total = :'total' where id = 1 and fence = :fence returning id" |
    sql -v total="$total")
[ -n "$written" ] || refused
