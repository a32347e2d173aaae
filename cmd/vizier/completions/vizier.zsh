#compdef vizier
# zsh completion for vizier
_vizier() {
    local line
    local -a candidates
    while IFS= read -r line; do
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe vizier candidates
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == _vizier ]]; then
    _vizier "$@" # loaded by its first use
else
    compdef _vizier vizier
fi
