# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_redlock_global_optspecs
    string join \n S/server= config= user= password-file= sentinel-password-file= tls-ca= tls-cert= tls-key= connect-timeout= q/quiet v/verbose color= h/help V/version
end

function __fish_redlock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_redlock_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_redlock_using_subcommand
    set -l cmd (__fish_redlock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c redlock -n "__fish_redlock_needs_command" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_needs_command" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_needs_command" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_needs_command" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_needs_command" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_needs_command" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_needs_command" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_needs_command" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_needs_command" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_needs_command" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_needs_command" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_needs_command" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_needs_command" -s V -l version -d 'Print version'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "run" -d 'Hold the lock while COMMAND runs'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "acquire" -d 'Acquire the lock and print its owner token'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "renew" -d 'Extend the lease'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "check" -d 'Ask whether the token still holds the lock'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "release" -d 'Release the lock'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "status" -d 'Show holders, waiters and time left'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "break" -d 'Take a lock away from its holder'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "doctor" -d 'Find out whether the store is fit to hold locks'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand run" -s k -l key -d 'The lock\'s name: 1 to 512 bytes without control characters; the first word is the same. Given more than once, all the locks are acquired, in one fixed order, or none is kept' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -s t -l ttl -d 'How long the lease lives without renewal: 500ms, 30s, 5m, 1h30m; a bare number is seconds [default: 30s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -s w -l wait -d 'Wait in line when the lock is held: for ever, or at most this long' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -s p -l permits -d 'Acquire one of N permits: at most N hold the lock at once' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l label -d 'What others see in `status` and in wait messages [default: the name of the program, and of the script that it runs]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l min-hold -d 'Keep the lock at least this long after it was acquired, even if it is released sooner' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l replicas -d 'Count the lock as acquired only when N replicas of the Redis server have it, too [default: 0]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -s E -l conflict-exit-code -d 'Exit status when the lock is held by another [default: 75]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l on-lost -d 'What happens to the command when the lock is lost [default: terminate]' -r -f -a "terminate\t'Stop it before another can hold the lock'
continue\t'Let it run on; `run` exits with 79 in the end'"
complete -c redlock -n "__fish_redlock_using_subcommand run" -l kill-after -d 'From SIGTERM to SIGKILL [default: a quarter of the TTL, at most 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l timeout -d 'Stop the command after this long, as timeout(1) does' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l splay -d 'Sleep a random part of this before acquiring the lock' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l leftovers -d 'What to do with processes that COMMAND left behind when it ended [default: release, or kill when a signal killed COMMAND]' -r -f -a "release\t'Release the lock while they run, with one warning'
wait\t'Hold the lock until the last of them has ended'
kill\t'Stop them, then release the lock'"
complete -c redlock -n "__fish_redlock_using_subcommand run" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s n -l no-wait -d 'Do not wait; undoes a configured wait'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s x -l exclusive -d 'Acquire the lock for oneself alone, as without this option; undoes a configured --shared or --permits'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s s -l shared -d 'Acquire a reader\'s lock: many may hold it at once, or one without --shared'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s c -l shell -d 'COMMAND is one string, in one word, run by `sh -c`'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s k -l key -d 'The lock\'s name: 1 to 512 bytes without control characters; the first word is the same. Given more than once, all the locks are acquired, in one fixed order, or none is kept' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s t -l ttl -d 'How long the lease lives without renewal: 500ms, 30s, 5m, 1h30m; a bare number is seconds [default: 30s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s w -l wait -d 'Wait in line when the lock is held: for ever, or at most this long' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s p -l permits -d 'Acquire one of N permits: at most N hold the lock at once' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l label -d 'What others see in `status` and in wait messages [default: the name of the program, and of the script that it runs]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l min-hold -d 'Keep the lock at least this long after it was acquired, even if it is released sooner' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l replicas -d 'Count the lock as acquired only when N replicas of the Redis server have it, too [default: 0]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l while-pid -d 'Keep the lock until the process PID ends, in a script $$, or until `release`' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l on-lost -d 'What happens to PID when the lock is lost [default: terminate]' -r -f -a "terminate\t'Stop it before another can hold the lock'
continue\t'Let it run on; `run` exits with 79 in the end'"
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l format -d 'What to print: the owner token, a line that a shell evaluates (env, fish), or JSON; github prints a mask and writes the lock to the environment files of GitHub Actions' -r -f -a "token\t''
env\t''
fish\t''
json\t''
github\t''"
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l token-file -d 'Write the owner token to this file, readable by you alone, instead of printing it' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s n -l no-wait -d 'Do not wait; undoes a configured wait'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s x -l exclusive -d 'Acquire the lock for oneself alone, as without this option; undoes a configured --shared or --permits'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s s -l shared -d 'Acquire a reader\'s lock: many may hold it at once, or one without --shared'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand renew" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand renew" -s k -l key -d 'The lock\'s name; the first word is the same. Given more than once, of locks that have one owner token' -r
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l token -d 'The owner token that `acquire` printed' -r
complete -c redlock -n "__fish_redlock_using_subcommand renew" -l token-file -d 'The file that `acquire --token-file` wrote' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand renew" -s t -l ttl -d 'How long the lease lives from now on [default: 30s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand renew" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand renew" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand renew" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand check" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand check" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand check" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand check" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand check" -s k -l key -d 'The lock\'s name; the first word is the same. Given more than once, of locks that have one owner token' -r
complete -c redlock -n "__fish_redlock_using_subcommand check" -l token -d 'The owner token that `acquire` printed' -r
complete -c redlock -n "__fish_redlock_using_subcommand check" -l token-file -d 'The file that `acquire --token-file` wrote' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand check" -l for -d 'The lease has to live at least this much longer' -r
complete -c redlock -n "__fish_redlock_using_subcommand check" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand check" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand release" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand release" -s k -l key -d 'The lock\'s name; the first word is the same. Given more than once, of locks that have one owner token' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l token -d 'The owner token that `acquire` printed' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l token-file -d 'The file that `acquire --token-file` wrote' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand release" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand status" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand status" -s k -l key -d 'The same, as an option' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand status" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand status" -l json -d 'Print JSON: see redlock-status(1) for the fields'
complete -c redlock -n "__fish_redlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand break" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand break" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand break" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand break" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand break" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand break" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand break" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand break" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand break" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand break" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand break" -s k -l key -d 'The lock\'s name; the first word is the same' -r
complete -c redlock -n "__fish_redlock_using_subcommand break" -l token -d 'Break the lock only if this owner token holds it' -r
complete -c redlock -n "__fish_redlock_using_subcommand break" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand break" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand break" -s y -l yes -d 'Do not ask'
complete -c redlock -n "__fish_redlock_using_subcommand break" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -s t -l ttl -d 'The TTL that is in use [default: 30s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l kill-after -d 'The time from SIGTERM to SIGKILL that is in use [default: a quarter of the TTL, at most 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l replicas -d 'How many replicas must have a lock [default: 0]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l json -d 'Print JSON: see redlock-doctor(1) for the fields'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand completions" -s S -l server -d 'Where locks are kept: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, redis+sentinel://, redis+cluster://, redis+unix://PATH, etcd://host[:port],host[:port], etcds:// for TLS, zk://host[:port],host[:port], zks:// for TLS, or local:[PATH] for a lock on this host only; see STORES in redlock(1). Given more than once, it is a quorum of independent servers [default: redis://127.0.0.1:6379]' -r
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l config -d 'Read this configuration file instead of ~/.config/redlock/config.toml' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l user -d 'Log in to the store as this user' -r
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l password-file -d 'Log in with the password in the first line of this file, which others must not be able to read' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l sentinel-password-file -d 'Log in to the Sentinels with the password in the first line of this file' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l tls-ca -d 'With rediss://, trust certificates signed by these (PEM) instead of the system\'s' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l tls-cert -d 'With rediss://, the client certificate (PEM) for a server that asks for one' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l tls-key -d 'The private key of --tls-cert (PEM)' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l connect-timeout -d 'Wait at most this long for an answer of the store [default: 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand completions" -l color -d 'Colour the output [default: auto]' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand completions" -s q -l quiet -d 'Print only errors; a busy lock is not an error'
complete -c redlock -n "__fish_redlock_using_subcommand completions" -s v -l verbose -d 'Print what is done'
complete -c redlock -n "__fish_redlock_using_subcommand completions" -s h -l help -d 'Print help'
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "run"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "acquire"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "renew"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "check"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "release"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "status"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "break"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "doctor"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "completions"
complete -c redlock -n "__fish_redlock_using_subcommand help; and not __fish_seen_subcommand_from run acquire renew check release status break doctor completions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
