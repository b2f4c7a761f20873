# Completion of redlock for fish.

# Prints the subcommand before the cursor, and on further lines the command that `run` starts, if the cursor is in it.
function __redlock_read
    set -l words (commandline -opc)
    set -e words[1]
    set -l subcommand ""
    set -l has_key no
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        switch $word
            case --
                echo $subcommand
                echo begins
                test "$subcommand" = run; and string join \n -- $words
                return
            case --check --color --config --conflict-exit-code --connect-timeout --for --format --history --key --kill-after --label --leftovers --log-file --log-format --metrics-file --min-hold --on-acquire --on-lost --on-lost-run --on-release --on-wait --once-per --password-file --permits --pool --priority --profile --queue-limit --ran-within --reason --replicas --sentinel-password-file --sequence --server --share --splay --take --timeout --tls-ca --tls-cert --tls-key --token --token-file --ttl --until --user --while-pid --with -E -S -k -p -t
                contains -- $word -k --key --pool; and set has_key yes
                set -e words[1]
            case -w --wait
                # Only a number is its limit.
                string match -qr '^[0-9]' -- "$words[1]"; and set -e words[1]
            case '-k*' '--key=*' '--pool=*'
                set has_key yes
            case '-*'
            case '*'
                if test -z "$subcommand"
                    set subcommand $word
                else if test "$subcommand $has_key" = "run yes"
                    echo $subcommand
                    echo begins
                    string join \n -- $word $words
                    return
                else
                    set has_key yes
                end
        end
    end
    echo $subcommand
    if test "$subcommand $has_key" = "run yes"
        # A word that is not an option is the command.
        echo "may begin"
    else if test $has_key = yes
        echo "has key"
    end
end

# Prints what redlock knows: the keys in use, or the servers, profiles or pools in its configuration files.
function __redlock_known
    set -l words (commandline -opc)
    set -l program $words[1]
    set -l store
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --
                break
            case -S --server --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key
                set -q words[2]; and set -a store $words[1..2]
            case '-S?*' '--server=*' '--config=*' '--profile=*' '--user=*' '--password-file=*' '--sentinel-password-file=*' '--tls-ca=*' '--tls-cert=*' '--tls-key=*'
                set -a store $words[1]
        end
        set -e words[1]
    end
    command $program completions --list $argv[1] $store 2>/dev/null
end

# True if the next word is a key.
function __redlock_wants_key
    set -l read (__redlock_read)
    switch "$read[1]"
        case status wait history
            return 0
        case run acquire renew check release break resize config
            not set -q read[2]
        case '*'
            return 1
    end
end

# True if the cursor is at the words of a subcommand, and not in the command that it runs.
function __redlock_at
    set -l read (__redlock_read)
    test "$read[1]" = "$argv[1]"; and test "$read[2]" != begins
end

function __redlock_in_command
    set -l read (__redlock_read)
    test "$read[1]" = run; or return
    test "$read[2]" = begins; and return
    test "$read[2]" = "may begin"; and not string match -q -- '-*' (commandline -ct)
end

# Completes the command as if it stood alone.
function __redlock_complete_command
    set -l words (__redlock_read)[3..]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

complete -c redlock -f
complete -c redlock -n '__redlock_at ""' -s h -l help -d 'Print help'
complete -c redlock -n '__redlock_at ""' -s V -l version -d 'Print the version'
complete -c redlock -n __redlock_in_command -xa '(__redlock_complete_command)'
complete -c redlock -n __redlock_wants_key -xa '(__redlock_known keys)'
complete -c redlock -n '__redlock_at completions' -xa 'bash zsh fish'
complete -c redlock -n '__redlock_at ""' -xa run -d 'Hold the lock while COMMAND runs'
complete -c redlock -n '__redlock_at ""' -xa acquire -d 'Acquire the lock and print its owner token'
complete -c redlock -n '__redlock_at ""' -xa renew -d 'Extend the lease'
complete -c redlock -n '__redlock_at ""' -xa check -d 'Ask whether a token holds the lock, or a job ran lately'
complete -c redlock -n '__redlock_at ""' -xa release -d 'Release the lock'
complete -c redlock -n '__redlock_at ""' -xa status -d 'Show holders, waiters and time left'
complete -c redlock -n '__redlock_at ""' -xa wait -d 'Wait until a lock is free, and take nothing'
complete -c redlock -n '__redlock_at ""' -xa history -d 'Show the last runs: when, where, and how they ended'
complete -c redlock -n '__redlock_at ""' -xa break -d 'Take a lock away from its holder'
complete -c redlock -n '__redlock_at ""' -xa resize -d 'Set the number of permits of a lock in use'
complete -c redlock -n '__redlock_at ""' -xa doctor -d 'Find out whether the store is fit to hold locks'
complete -c redlock -n '__redlock_at ""' -xa config -d 'Show the settings in force, and where each comes from'
complete -c redlock -n '__redlock_at ""' -xa completions -d 'Print a completion script for a shell'
complete -c redlock -n '__redlock_at run' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at run' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at run' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at run' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at run' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at run' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at run' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at run' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at run' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at run' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at run' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at run' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at run' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at run' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at run' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at run' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at run' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at run' -s k -l key -xa '(__redlock_known keys)' -d 'Take this lock; repeat -k for several'
complete -c redlock -n '__redlock_at run' -l one-of -d 'Take one of the locks, whichever is free first'
complete -c redlock -n '__redlock_at run' -l pool -xa '(__redlock_known pools)' -d 'Take one of the locks of a pool in the configuration'
complete -c redlock -n '__redlock_at run' -l with -x -d 'Take only pool members with this property'
complete -c redlock -n '__redlock_at run' -s t -l ttl -x -d 'Set how long the lease lives'
complete -c redlock -n '__redlock_at run' -s w -l wait -d 'Wait for the lock instead of failing with 75'
complete -c redlock -n '__redlock_at run' -s n -l no-wait -d 'Do not wait; undo a configured wait'
complete -c redlock -n '__redlock_at run' -l queue-limit -x -d 'Exit with 75 if N others wait already'
complete -c redlock -n '__redlock_at run' -l priority -x -d 'Wait ahead of those with a lower priority'
complete -c redlock -n '__redlock_at run' -l supersede -d 'Take the place of earlier waiters with this option'
complete -c redlock -n '__redlock_at run' -l replace -d 'Stop the run that holds the lock, and take its place'
complete -c redlock -n '__redlock_at run' -s s -l shared -d 'Take a shared (reader) lock'
complete -c redlock -n '__redlock_at run' -s p -l permits -x -d 'Take one of N permits: N may hold it at once'
complete -c redlock -n '__redlock_at run' -l take -x -d 'Take N of the permits at once'
complete -c redlock -n '__redlock_at run' -l tree -d 'Take a part of a tree: data/eu excludes data and data/eu/x'
complete -c redlock -n '__redlock_at run' -l label -x -d 'Show others this text in status and while they wait'
complete -c redlock -n '__redlock_at run' -l min-hold -x -d 'Keep the lock at least this long, even when released sooner'
complete -c redlock -n '__redlock_at run' -l replicas -x -d 'Require the lock on N replicas of the Redis server'
complete -c redlock -n '__redlock_at run' -s c -l shell -d 'Run COMMAND, one quoted argument, with `sh -c`'
complete -c redlock -n '__redlock_at run' -s E -l conflict-exit-code -x -d 'Exit with N when the lock is busy'
complete -c redlock -n '__redlock_at run' -l once-per -x -d 'Run COMMAND only if no run succeeded within this time'
complete -c redlock -n '__redlock_at run' -l sequence -x -d 'Run COMMAND only if no run with a higher N has begun'
complete -c redlock -n '__redlock_at run' -l timeout -x -d 'Stop COMMAND after this long, as timeout(1) does'
complete -c redlock -n '__redlock_at run' -l on-lost -xa 'terminate continue' -d 'Choose what happens to COMMAND when the lock is lost'
complete -c redlock -n '__redlock_at run' -l kill-after -x -d 'Wait this long between SIGTERM and SIGKILL'
complete -c redlock -n '__redlock_at run' -l splay -x -d 'Sleep a random part of this before acquiring the lock'
complete -c redlock -n '__redlock_at run' -l leftovers -xa 'release wait kill' -d 'Choose what happens to processes that COMMAND left behind'
complete -c redlock -n '__redlock_at run' -l history -x -d 'Keep this many runs in the lock\'s history'
complete -c redlock -n '__redlock_at run' -l on-wait -x -d 'Run CMD when the wait for the lock begins'
complete -c redlock -n '__redlock_at run' -l on-acquire -x -d 'Run CMD beside COMMAND, when that has started'
complete -c redlock -n '__redlock_at run' -l on-lost-run -x -d 'Run CMD when the lock was lost while COMMAND ran'
complete -c redlock -n '__redlock_at run' -l on-release -x -d 'Run CMD when the lock was released'
complete -c redlock -n '__redlock_at run' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at acquire' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at acquire' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at acquire' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at acquire' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at acquire' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at acquire' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at acquire' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at acquire' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at acquire' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at acquire' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at acquire' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at acquire' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at acquire' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at acquire' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at acquire' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at acquire' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at acquire' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at acquire' -s k -l key -xa '(__redlock_known keys)' -d 'Take this lock; repeat -k for several'
complete -c redlock -n '__redlock_at acquire' -l one-of -d 'Take one of the locks, whichever is free first'
complete -c redlock -n '__redlock_at acquire' -l pool -xa '(__redlock_known pools)' -d 'Take one of the locks of a pool in the configuration'
complete -c redlock -n '__redlock_at acquire' -l with -x -d 'Take only pool members with this property'
complete -c redlock -n '__redlock_at acquire' -s t -l ttl -x -d 'Set how long the lease lives'
complete -c redlock -n '__redlock_at acquire' -s w -l wait -d 'Wait for the lock instead of failing with 75'
complete -c redlock -n '__redlock_at acquire' -s n -l no-wait -d 'Do not wait; undo a configured wait'
complete -c redlock -n '__redlock_at acquire' -l queue-limit -x -d 'Exit with 75 if N others wait already'
complete -c redlock -n '__redlock_at acquire' -l priority -x -d 'Wait ahead of those with a lower priority'
complete -c redlock -n '__redlock_at acquire' -l supersede -d 'Take the place of earlier waiters with this option'
complete -c redlock -n '__redlock_at acquire' -l replace -d 'Stop the run that holds the lock, and take its place'
complete -c redlock -n '__redlock_at acquire' -s s -l shared -d 'Take a shared (reader) lock'
complete -c redlock -n '__redlock_at acquire' -s p -l permits -x -d 'Take one of N permits: N may hold it at once'
complete -c redlock -n '__redlock_at acquire' -l take -x -d 'Take N of the permits at once'
complete -c redlock -n '__redlock_at acquire' -l tree -d 'Take a part of a tree: data/eu excludes data and data/eu/x'
complete -c redlock -n '__redlock_at acquire' -l label -x -d 'Show others this text in status and while they wait'
complete -c redlock -n '__redlock_at acquire' -l min-hold -x -d 'Keep the lock at least this long, even when released sooner'
complete -c redlock -n '__redlock_at acquire' -l replicas -x -d 'Require the lock on N replicas of the Redis server'
complete -c redlock -n '__redlock_at acquire' -l while-pid -x -d 'Hold the lock until process PID ends ($$ in a script)'
complete -c redlock -n '__redlock_at acquire' -l until -x -d 'Keep the lock until this time of day, as a reservation'
complete -c redlock -n '__redlock_at acquire' -l reason -x -d 'Say why it is reserved, for status and messages'
complete -c redlock -n '__redlock_at acquire' -l on-lost -xa 'terminate continue' -d 'Choose what happens to PID when the lock is lost'
complete -c redlock -n '__redlock_at acquire' -l format -xa 'token env fish json github' -d 'Print token, env, fish (to eval), json or github'
complete -c redlock -n '__redlock_at acquire' -l token-file -rF -d 'Write the owner token to this file, for you alone'
complete -c redlock -n '__redlock_at acquire' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at renew' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at renew' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at renew' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at renew' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at renew' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at renew' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at renew' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at renew' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at renew' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at renew' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at renew' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at renew' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at renew' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at renew' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at renew' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at renew' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at renew' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at renew' -s k -l key -xa '(__redlock_known keys)' -d 'Name the lock, here or as the first word'
complete -c redlock -n '__redlock_at renew' -l tree -d 'Add the keys above KEY, as `acquire --tree` did'
complete -c redlock -n '__redlock_at renew' -l token -x -d 'Use the owner token that `acquire` printed'
complete -c redlock -n '__redlock_at renew' -l token-file -rF -d 'Read the owner token from what `acquire --token-file` wrote'
complete -c redlock -n '__redlock_at renew' -s t -l ttl -x -d 'Set how long the lease lives from now on'
complete -c redlock -n '__redlock_at renew' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at check' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at check' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at check' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at check' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at check' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at check' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at check' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at check' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at check' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at check' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at check' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at check' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at check' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at check' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at check' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at check' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at check' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at check' -s k -l key -xa '(__redlock_known keys)' -d 'Name the lock, here or as the first word'
complete -c redlock -n '__redlock_at check' -l tree -d 'Add the keys above KEY, as `acquire --tree` did'
complete -c redlock -n '__redlock_at check' -l token -x -d 'Use the owner token that `acquire` printed'
complete -c redlock -n '__redlock_at check' -l token-file -rF -d 'Read the owner token from what `acquire --token-file` wrote'
complete -c redlock -n '__redlock_at check' -l for -x -d 'Require that the lease lives at least this much longer'
complete -c redlock -n '__redlock_at check' -l ran-within -x -d 'Require a successful run that ended within this time'
complete -c redlock -n '__redlock_at check' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at release' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at release' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at release' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at release' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at release' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at release' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at release' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at release' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at release' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at release' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at release' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at release' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at release' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at release' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at release' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at release' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at release' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at release' -s k -l key -xa '(__redlock_known keys)' -d 'Name the lock, here or as the first word'
complete -c redlock -n '__redlock_at release' -l tree -d 'Add the keys above KEY, as `acquire --tree` did'
complete -c redlock -n '__redlock_at release' -l token -x -d 'Use the owner token that `acquire` printed'
complete -c redlock -n '__redlock_at release' -l token-file -rF -d 'Read the owner token from what `acquire --token-file` wrote'
complete -c redlock -n '__redlock_at release' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at status' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at status' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at status' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at status' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at status' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at status' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at status' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at status' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at status' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at status' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at status' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at status' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at status' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at status' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at status' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at status' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at status' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at status' -s k -l key -xa '(__redlock_known keys)' -d 'Choose the lock of exactly this name'
complete -c redlock -n '__redlock_at status' -l format -xa 'text json prometheus' -d 'Print text, json or prometheus'
complete -c redlock -n '__redlock_at status' -l watch -d 'Follow the locks on the whole screen'
complete -c redlock -n '__redlock_at status' -l is-free -d 'Exit with 0 if all are free, with 75 if one is in use'
complete -c redlock -n '__redlock_at status' -l json -d 'Print JSON, as --format json does'
complete -c redlock -n '__redlock_at status' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at wait' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at wait' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at wait' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at wait' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at wait' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at wait' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at wait' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at wait' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at wait' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at wait' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at wait' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at wait' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at wait' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at wait' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at wait' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at wait' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at wait' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at wait' -s k -l key -xa '(__redlock_known keys)' -d 'Choose the lock of exactly this name'
complete -c redlock -n '__redlock_at wait' -l timeout -x -d 'Stop waiting after this long, with 75'
complete -c redlock -n '__redlock_at wait' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at history' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at history' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at history' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at history' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at history' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at history' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at history' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at history' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at history' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at history' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at history' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at history' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at history' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at history' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at history' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at history' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at history' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at history' -s k -l key -xa '(__redlock_known keys)' -d 'Choose the lock of exactly this name'
complete -c redlock -n '__redlock_at history' -l json -d 'Print JSON: see redlock-history(1) for the fields'
complete -c redlock -n '__redlock_at history' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at break' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at break' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at break' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at break' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at break' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at break' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at break' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at break' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at break' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at break' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at break' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at break' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at break' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at break' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at break' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at break' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at break' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at break' -s k -l key -xa '(__redlock_known keys)' -d 'Name the lock, here or as the first word'
complete -c redlock -n '__redlock_at break' -l token -x -d 'Break the lock only if this owner token holds it'
complete -c redlock -n '__redlock_at break' -l reason -x -d 'Say why, for the holder and status, beside your name'
complete -c redlock -n '__redlock_at break' -s y -l yes -d 'Break the lock without asking'
complete -c redlock -n '__redlock_at break' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at resize' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at resize' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at resize' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at resize' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at resize' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at resize' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at resize' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at resize' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at resize' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at resize' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at resize' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at resize' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at resize' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at resize' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at resize' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at resize' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at resize' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at resize' -s k -l key -xa '(__redlock_known keys)' -d 'Name the lock, here or as the first word'
complete -c redlock -n '__redlock_at resize' -s p -l permits -x -d 'Set the number of permits'
complete -c redlock -n '__redlock_at resize' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at doctor' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at doctor' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at doctor' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at doctor' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at doctor' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at doctor' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at doctor' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at doctor' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at doctor' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at doctor' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at doctor' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at doctor' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at doctor' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at doctor' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at doctor' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at doctor' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at doctor' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at doctor' -l json -d 'Print JSON: see redlock-doctor(1) for the fields'
complete -c redlock -n '__redlock_at doctor' -l share -x -d 'Share the file of local: with this group of users first'
complete -c redlock -n '__redlock_at doctor' -l sql -d 'Print the SQL script that makes the schema in PostgreSQL'
complete -c redlock -n '__redlock_at doctor' -l setup -d 'Run that script in the database of --server first'
complete -c redlock -n '__redlock_at doctor' -s t -l ttl -x -d 'Judge the store for this TTL'
complete -c redlock -n '__redlock_at doctor' -l kill-after -x -d 'Judge it for this time from SIGTERM to SIGKILL'
complete -c redlock -n '__redlock_at doctor' -l replicas -x -d 'Require locks on N replicas'
complete -c redlock -n '__redlock_at doctor' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at config' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at config' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at config' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at config' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at config' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at config' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at config' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at config' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at config' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at config' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at config' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at config' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at config' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at config' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at config' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at config' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at config' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at config' -s k -l key -xa '(__redlock_known keys)' -d 'Show the settings for this key, here or as the first word'
complete -c redlock -n '__redlock_at config' -l check -rF -d 'Check this file, and nothing else'
complete -c redlock -n '__redlock_at config' -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n '__redlock_at completions' -s S -l server -xa 'local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql:// (__redlock_known servers)' -d 'Use this store'
complete -c redlock -n '__redlock_at completions' -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n '__redlock_at completions' -s v -l verbose -d 'Print each step'
complete -c redlock -n '__redlock_at completions' -l config -rF -d 'Read this file instead of ~/.config/redlock/config.toml'
complete -c redlock -n '__redlock_at completions' -l profile -xa '(__redlock_known profiles)' -d 'Use the settings of [profiles.NAME] in configuration files'
complete -c redlock -n '__redlock_at completions' -l user -x -d 'Log in to the store as this user'
complete -c redlock -n '__redlock_at completions' -l password-file -rF -d 'Log in with the password in the first line of this file'
complete -c redlock -n '__redlock_at completions' -l sentinel-password-file -rF -d 'Log in to the Sentinels with the first line of this file'
complete -c redlock -n '__redlock_at completions' -l tls-ca -rF -d 'Trust certificates signed by these (PEM), not the system\'s'
complete -c redlock -n '__redlock_at completions' -l tls-cert -rF -d 'Show this client certificate (PEM) to a server that asks'
complete -c redlock -n '__redlock_at completions' -l tls-key -rF -d 'Use this private key (PEM) for --tls-cert'
complete -c redlock -n '__redlock_at completions' -l connect-timeout -x -d 'Wait at most this long for an answer from the store'
complete -c redlock -n '__redlock_at completions' -l color -xa 'auto always never' -d 'Color the output'
complete -c redlock -n '__redlock_at completions' -l log-format -xa 'text json' -d 'Write messages as text, or events as JSON'
complete -c redlock -n '__redlock_at completions' -l log-file -rF -d 'Add each event to this file as a line of JSON'
complete -c redlock -n '__redlock_at completions' -l syslog -d 'Send each event to the log of this host: journald or syslog'
complete -c redlock -n '__redlock_at completions' -l metrics-file -rF -d 'Add the outcome to the Prometheus metrics in this file'
complete -c redlock -n '__redlock_at completions' -s h -l help -d 'Print help (see more with \'--help\')'
