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
            case @WITH_VALUE@
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
            case @STORE_OPTIONS@
                set -q words[2]; and set -a store $words[1..2]
            case '-S?*' @STORE_OPTIONS_JOINT@
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
        case @WITH_KEY@
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
complete -c redlock -n '__redlock_at completions' -xa '@SHELLS@'
@SUBCOMMANDS@
@OPTIONS@
