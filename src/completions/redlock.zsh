#compdef redlock
# Completion of redlock for zsh.

_redlock_servers() {
    compadd -S '' -- @SERVERS@
}

# The options of a subcommand, in `options`.
_redlock_options() {
    case $1 in
@OPTIONS@
    esac
}

_redlock() {
    local context curcontext=$curcontext state line ret=1
    local -a subcommands options places
    subcommands=(
@SUBCOMMANDS@
    )
    _arguments -C -S \
        '*'{-S+,--server=}'[Where locks are kept]:url:_redlock_servers' \
        '(-q --quiet)'{-q,--quiet}'[Print only errors]' \
        '(-v --verbose)'{-v,--verbose}'[Print what is done]' \
        '(- *)'{-h,--help}'[Print help]' \
        '(- *)'{-V,--version}'[Print the version]' \
        '(-)1:subcommand:->subcommand' \
        '(-)*:: :->words' && ret=0
    case $state in
        subcommand) _describe -t commands subcommand subcommands && ret=0 ;;
        words)
            curcontext=${curcontext%:*}-$line[1]:
            _redlock_options $line[1]
            case $line[1] in
                run)
                    # Behind the first word of the command all is its own.
                    places=('1:key:()' '(-)*:::command: _normal')
                    if (( ${words[(I)(-k*|--key|--key=*)]} )); then
                        shift places
                    fi
                    ;;
                completions) places=('1:shell:(@SHELLS@)') ;;
                help) places=('1:subcommand:(${subcommands%%:*})') ;;
                doctor) ;;
                status) places=('*:key:()') ;;
                *) places=('1:key:()') ;;
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
