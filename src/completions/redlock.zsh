#compdef redlock
# Completion of redlock for zsh.

# What redlock knows: the keys in use, or the servers, profiles or pools in its configuration files.
_redlock_known() {
    local -a known
    known=(${(f)"$(command $program completions --list $1 $store 2>/dev/null)"})
    compadd -a known
}

_redlock_servers() {
    compadd -S '' -- @SERVERS@
    _redlock_known servers
}

_redlock_profiles() { _redlock_known profiles }

_redlock_pools() { _redlock_known pools }

_redlock_keys() { _redlock_known keys }

# Finds in `words` what leads to the store.
_redlock_find_store() {
    local -i i
    for (( i = 2; i < CURRENT; i++ )); do
        case $words[i] in
            --) return ;;
            @STORE_OPTIONS@) (( i + 1 < CURRENT )) && store+=($words[i] ${(Q)words[i+1]}) ;;
            -S?*|@STORE_OPTIONS_JOINT@=*) store+=(${(Q)words[i]}) ;;
        esac
    done
}

# The options of a subcommand, in `options`.
_redlock_options() {
    case $1 in
@OPTIONS@
    esac
}

# Finds in `words` where the command begins that `run` starts, if it does, and whether there is a key; in `places` if that
# is a word.
_redlock_find_command() {
    local -i i
    for (( i = 2; i < CURRENT; i++ )); do
        case $words[i] in
            --) command=$(( i + 1 )) && return ;;
            -k|--key|--pool) has_key=1 && (( ++i )) ;;
            @WITH_VALUE@) (( ++i )) ;;
            # Only a number is its limit.
            -w|--wait) [[ $words[i+1] == [0-9]* ]] && (( ++i )) ;;
            -k*|--key=*|--pool=*) has_key=1 ;;
            -*) ;;
            *)
                (( has_key )) && command=$i && return
                has_key=1 places=('1:key:_redlock_keys')
                ;;
        esac
    done
    if (( has_key && i == CURRENT )) && [[ $words[CURRENT] != -* ]]; then
        command=$CURRENT
    fi
}

_redlock() {
    local context curcontext=$curcontext state line program=${(Q)words[1]} ret=1
    local -a subcommands options places store
    local -i command=0 has_key=0
    _redlock_find_store
    subcommands=(
@SUBCOMMANDS@
    )
    _arguments -C -S \
@OPTIONS_BEFORE@
        '(-)1:subcommand:->subcommand' \
        '(-)*:: :->words' && ret=0
    case $state in
        subcommand) _describe -t commands subcommand subcommands && ret=0 ;;
        words)
            curcontext=${curcontext%:*}-$line[1]:
            _redlock_options $line[1]
            case $line[1] in
                run)
                    _redlock_find_command
                    if (( command )); then
                        shift $(( command - 1 )) words
                        (( CURRENT -= command - 1 ))
                        _normal
                        return
                    fi
                    (( has_key )) || places=('1:key:_redlock_keys')
                    ;;
                completions) places=('1:shell:(@SHELLS@)') ;;
                help) places=('1:subcommand:(${subcommands%%:*})') ;;
                doctor) ;;
                status|wait|history) places=('*:key:_redlock_keys') ;;
                *) places=('1:key:_redlock_keys') ;;
            esac
            _arguments -S $options $places && ret=0
            ;;
    esac
    return ret
}

if [[ $funcstack[1] == _redlock ]]; then
    _redlock "$@"
else
    compdef _redlock redlock
fi
