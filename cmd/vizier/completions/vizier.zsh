#compdef vizier
# zsh completion for vizier
_vizier() {
    local line name typed=$PREFIX # without an opening quote
    local -a candidates
    [[ ${compstate[quoting]} == single ]] || typed=${(Q)PREFIX}
    while IFS= read -r line; do
        name=${line%%$'\t'*}
        name=${name//\\/\\\\}
        candidates+=("${name//:/\\:}:${line#*$'\t'}")
    done < <("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "$typed" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe vizier candidates
    else
        [[ $PREFIX == --*=* ]] && compset -P '*='
        _files
    fi
}
if [[ "${funcstack[1]}" == _vizier ]]; then
    _vizier "$@" # loaded by its first use
else
    compdef _vizier vizier
fi
