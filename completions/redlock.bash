# shellcheck shell=bash disable=SC2207
# Completion of redlock for bash. The command that it runs is completed by bash-completion, where that is loaded.

# The options of a subcommand.
_redlock_options() {
    case $1 in
        run) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --one-of --pool --with -t --ttl -w --wait -n --no-wait --queue-limit --priority --supersede --replace -s --shared -p --permits --take --tree --label --min-hold --replicas -c --shell -E --conflict-exit-code --once-per --sequence --timeout --on-lost --kill-after --splay --leftovers --history --on-wait --on-acquire --on-lost-run --on-release -h --help ;;
        acquire) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --one-of --pool --with -t --ttl -w --wait -n --no-wait --queue-limit --priority --supersede --replace -s --shared -p --permits --take --tree --label --min-hold --replicas --while-pid --until --reason --on-lost --format --token-file -h --help ;;
        renew) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --tree --token --token-file -t --ttl -h --help ;;
        check) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --tree --token --token-file --for --ran-within -h --help ;;
        release) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --tree --token --token-file -h --help ;;
        status) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --format --watch --is-free --json -h --help ;;
        wait) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --timeout -h --help ;;
        history) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --json -h --help ;;
        break) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --token --reason -y --yes -h --help ;;
        resize) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key -p --permits -h --help ;;
        doctor) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file --json --share --sql --setup -t --ttl --kill-after --replicas -h --help ;;
        config) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -k --key --check -h --help ;;
        completions) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -h --help ;;
        *) echo -S --server -q --quiet -v --verbose --config --profile --user --password-file --sentinel-password-file --tls-ca --tls-cert --tls-key --connect-timeout --color --log-format --log-file --syslog --metrics-file -h --help -V --version ;;
    esac
}

# The words that the value of an option of a subcommand may be.
_redlock_words() {
    case "$1 $2" in
        *\ --color) echo auto always never ;;
        *\ --log-format) echo text json ;;
        *\ --on-lost) echo terminate continue ;;
        *\ --leftovers) echo release wait kill ;;
        acquire\ --format) echo token env fish json github ;;
        status\ --format) echo text json prometheus ;;
    esac
}

# Whether the next word is the value of this one.
_redlock_takes_value() {
    case $1 in
        --check|--color|--config|--conflict-exit-code|--connect-timeout|--for|--format|--history|--key|--kill-after|--label|--leftovers|--log-file|--log-format|--metrics-file|--min-hold|--on-acquire|--on-lost|--on-lost-run|--on-release|--on-wait|--once-per|--password-file|--permits|--pool|--priority|--profile|--queue-limit|--ran-within|--reason|--replicas|--sentinel-password-file|--sequence|--server|--share|--splay|--take|--timeout|--tls-ca|--tls-cert|--tls-key|--token|--token-file|--ttl|--until|--user|--while-pid|--with|-E|-S|-k|-p|-t) return 0 ;;
        # Only a number is its limit.
        -w | --wait) [[ $2 == [0-9]* ]] ;;
        *) return 1 ;;
    esac
}

# Reads the words before the cursor: the subcommand, whether there is a key, where the command begins that it runs, if it
# does, and what leads to the store.
_redlock_read() {
    local i
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
            -S|--server|--config|--profile|--user|--password-file|--sentinel-password-file|--tls-ca|--tls-cert|--tls-key) ((i + 1 < cword)) && store+=("${words[i]}" "${words[i + 1]}") ;;
            -S?* | --server=*|--config=*|--profile=*|--user=*|--password-file=*|--sentinel-password-file=*|--tls-ca=*|--tls-cert=*|--tls-key=*) store+=("${words[i]}") ;;
        esac
        if [[ ${words[i]} == -- ]]; then
            [[ $subcommand == run ]] && command=$((i + 1))
            return
        elif _redlock_takes_value "${words[i]}" "${words[i + 1]}"; then
            [[ ${words[i]} == @(-k|--key|--pool) ]] && has_key=1
            ((i++))
        elif [[ ${words[i]} == -* ]]; then
            [[ ${words[i]} == @(-k?*|--key=*|--pool=*) ]] && has_key=1
        elif [[ -z $subcommand ]]; then
            subcommand=${words[i]}
        elif [[ $subcommand == run && -n $has_key ]]; then
            command=$i
            return
        else
            has_key=1
        fi
    done
    if [[ $subcommand == run && -n $has_key && $cur != -* && $cword -eq $i ]]; then
        command=$cword
    fi
}

# Completes the command that `run` starts, as if it stood alone.
_redlock_command() {
    local i=0 offset=0 word
    # A colon or an equals sign is a word of its own in COMP_WORDS.
    for ((; i < command; i++)); do
        word=${COMP_WORDS[offset]}
        while [[ $word != "${words[i]}" && $offset -lt $COMP_CWORD ]]; do
            ((offset++))
            word+=${COMP_WORDS[offset]}
        done
        ((offset++))
    done
    if declare -F _command_offset >/dev/null; then
        _command_offset "$offset"
    elif ((cword == command)); then
        COMPREPLY=($(compgen -c -- "$cur"))
    else
        compopt -o default
    fi
}

# Offers what redlock knows: the keys in use, or the servers, profiles or pools in its configuration files.
_redlock_known() {
    local name
    while IFS= read -r name; do
        # Behind a quote the shell would read what %q writes as something else.
        [[ ${COMP_WORDS[COMP_CWORD]} == *[\"\']* && $(printf %q "$name") != "$name" ]] && continue
        [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf %q "$name")")
    done < <(command "${words[0]}" completions --list "$1" "${store[@]}" 2>/dev/null)
}

_redlock() {
    local cur prev words cword subcommand='' command='' has_key='' option
    local -a store=()
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n := cur prev words cword
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=$2 prev=$3
    fi
    _redlock_read
    if [[ -n $command ]]; then
        _redlock_command
        return
    fi
    option=$prev
    if [[ $cur == --*=* ]]; then
        option=${cur%%=*}
        cur=${cur#*=}
    fi
    if [[ $option == -* ]] && _redlock_takes_value "$option" "$cur"; then
        case $option in
            -S | --server)
                COMPREPLY=($(compgen -W "local: redis:// rediss:// redis+unix:// redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster:// etcd:// etcds:// zk:// zks:// memcached:// postgres:// postgresql://" -- "$cur"))
                [[ -n ${COMPREPLY[*]} ]] && compopt -o nospace
                _redlock_known servers
                ;;
            --profile) _redlock_known profiles ;;
            --pool) _redlock_known pools ;;
            -k | --key) _redlock_known keys ;;
            --config|--password-file|--sentinel-password-file|--tls-ca|--tls-cert|--tls-key|--log-file|--metrics-file|--token-file|--check)
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                ;;
            *) COMPREPLY=($(compgen -W "$(_redlock_words "$subcommand" "$option")" -- "$cur")) ;;
        esac
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(_redlock_options "$subcommand")" -- "$cur"))
    elif [[ -z $subcommand ]]; then
        COMPREPLY=($(compgen -W "run acquire renew check release status wait history break resize doctor config completions help" -- "$cur"))
    elif [[ $subcommand == completions ]]; then
        COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur"))
    elif [[ $subcommand == help ]]; then
        COMPREPLY=($(compgen -W "run acquire renew check release status wait history break resize doctor config completions" -- "$cur"))
    elif [[ $subcommand != doctor && ( -z $has_key || $subcommand == @(status|wait|history) ) ]]; then
        _redlock_known keys
    fi
    if declare -F __ltrim_colon_completions >/dev/null; then
        __ltrim_colon_completions "$cur"
    fi
}

complete -F _redlock redlock
