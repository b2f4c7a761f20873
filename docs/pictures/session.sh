#!/bin/bash
# Records the session that README.md shows: three hosts, each with a terminal of its own, want one lock. Prints what is on
# their screens, with the colors. `redlock` is the one in the PATH. Needs tmux, and namespaces for the names of the hosts.
set -eu
folder=$(mktemp -d)
terminal() { tmux -u -f /dev/null -S "$folder/tmux" "$@"; }
trap 'terminal kill-server 2>/dev/null || :; rm -rf "$folder"' EXIT
cd "$folder"
unset TMUX
export LC_ALL=C.UTF-8 REDLOCK_SERVER=local:$folder/locks.db
cat >deploy.sh <<'END'
#!/bin/sh
echo "deploying from $(hostname)"
until [ -e "done-$(hostname)" ]; do sleep 0.1; done
END
chmod +x deploy.sh
echo "PS1='\\[\\e[32m\\]\\h\$\\[\\e[0m\\] '" >prompt

# A host with this name, and a shell on it.
host() {
    terminal new-session -d -s "$1" -x 118 -y 12 "unshare --uts sh -c 'hostname $1; exec bash --rcfile prompt'"
    await "$1" "^$1\\$"
}

screen() { terminal capture-pane -p -t "$1" "${@:2}"; }

type_on() { terminal send-keys -t "$1" -l "$2" \; send-keys -t "$1" Enter; }

# Waits until a host's screen has a text, for half a minute at most.
await() {
    for ((i = 0; i < 300; i++)); do
        ! screen "$1" | grep -q "$2" || return 0
        sleep 0.1
    done
    echo "session.sh: there is no '$2' on $1: $(screen "$1")" >&2
    exit 1
}

# What the host shows, without the prompt that waits for the next line and the empty lines below.
show() { screen "$1" -e | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | sed "\${/$1[\$][^ ]* *\$/d}"; }

host web1
type_on web1 'redlock run -k deploy -- ./deploy.sh'
await web1 '^deploying'
show web1
sleep 2

host web2
type_on web2 'redlock run -k deploy --wait 10m -- ./deploy.sh'
await web2 'held'
echo
show web2
sleep 1

host web3
type_on web3 'redlock status'
await web3 'waiting'
await web3 '^web3\$ *$'
type_on web3 'redlock run -k deploy -- ./deploy.sh; echo $?'
await web3 '^75'
echo
show web3

# One ends, and the other has the lock.
touch done-web1
await web2 '^deploying'
echo
echo "web1 is done:"
show web2
touch done-web2
await web2 '^web2\$ *$'
