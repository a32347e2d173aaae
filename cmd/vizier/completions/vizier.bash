# bash completion for vizier
_vizier() {
    local line IFS=$'\n'
    COMPREPLY=()
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}
complete -o default -F _vizier vizier
