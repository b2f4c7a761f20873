#!/bin/bash
# Prints the session that README.md begins with, as three hosts see it. A test compares the two; where namespaces may be
# made, REDLOCK_WRITE_DOCUMENTS=1 writes it there. `redlock` is the one in the PATH.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export REDLOCK_SERVER=local:$folder/locks.db
cat >deploy.sh <<'END'
#!/bin/sh
echo "deploying from $(hostname)"
until [ -e "done-$(hostname)" ]; do sleep 0.1; done
END
chmod +x deploy.sh

# What is typed on a host, and what it prints.
on() {
    local host=$1
    shift
    echo "$host\$ $*"
    unshare --uts sh -c "hostname $host; $*" >"$host" 2>&1 || true
}

# Until a file has a text, for half a minute at most.
await() {
    for ((i = 0; i < 300; i++)); do
        ! grep -q "$2" "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    echo "session.sh: there is no '$2' in $1: $(cat "$1")" >&2
    exit 1
}

on web1 'redlock run -k deploy -- ./deploy.sh' &
await web1 deploying
cat web1
sleep 2

echo
on web2 'redlock run -k deploy --wait 10m -- ./deploy.sh' &
await web2 held
cat web2
sleep 1

echo
on web3 'redlock status'
cat web3
echo
on web3 'redlock run -k deploy -- ./deploy.sh; echo $?'
cat web3

# One ends, and the other has the lock.
touch done-web1
await web2 deploying
echo
echo "web2  (as soon as web1 is done)"
tail -n +2 web2
touch done-web2
wait
