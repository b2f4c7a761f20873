#!/bin/sh
# Changes the total of a table in the database that has the locks. COMMAND reads the old total and prints the new one:
#
#     redlock run -S postgres:///db --key X -- ./transaction.sh COMMAND [ARG]...
#
# The table: create table ledger (id int primary key, total bigint not null)
set -eu

sql() {
    psql -XqAt -v ON_ERROR_STOP=1 -v key="$REDLOCK_KEY" -v fence="$REDLOCK_FENCE" "$@"
}

total=$(echo "select total from ledger where id = 1" | sql)
total=$(echo "$total" | "$@")

# In one transaction: the lock is still ours, and nobody else is granted it before the commit.
sql -v total="$total" >/dev/null <<'SQL' || { echo "transaction.sh: a later holder of the lock is at work; nothing was written" >&2; exit 1; }
begin;
select redlock.fenced(:'key', :fence);
update ledger set total = :'total' where id = 1;
commit;
SQL
