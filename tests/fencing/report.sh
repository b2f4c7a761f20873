#!/bin/sh
# Replaces a file. COMMAND reads the old contents and prints the new ones:
#
#     redlock run --key report -- ./report.sh FILE COMMAND [ARG]...
#
# To be run on the machine that has FILE. From another, copy FILE.$REDLOCK_FENCE there and take the `if_fence`
# steps there, by ssh(1): flock(1) on a network file system ends when the machine that has it is frozen.
set -eu
file=$1
new=$file.$REDLOCK_FENCE
shift
trap 'rm -f "$new"' EXIT

# A file cannot refuse by itself. So every look at the stamp, and what follows from it, is one step under
# flock(1); nothing that takes long belongs in there.
if_fence() (
    flock 9
    if ! [ "$(cat "$file.fence" 2>/dev/null || echo 0)" "$1" "$REDLOCK_FENCE" ]; then
        echo "report.sh: a later holder of the lock is at work; nothing was written" >&2
        exit 1
    fi
    sync "$2"
    mv "$2" "$3"
) 9>>"$file.lock"

# First the stamp, before anything is read: from here on no earlier holder can write.
echo "$REDLOCK_FENCE" >"$new"
if_fence -lt "$new" "$file.fence"

"$@" <"$file" >"$new"

# The stamp again, in the same step as the change: whoever came since has put a larger one there.
if_fence -eq "$new" "$file"
