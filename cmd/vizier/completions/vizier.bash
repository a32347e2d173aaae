# bash completion for vizier
_vizier() {
    # bash breaks words at = and @ and :, which are parts of ours.
    local line word piece rest=${COMP_LINE:0:COMP_POINT} words=() i last=-1 IFS=$'\n'
    COMPREPLY=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        piece=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
            ((++last))
        fi
        words[last]+=$piece
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$piece"}
    done
    piece=${piece##*[=:]}
    word=${words[last]%"$piece"}
    word=${word%@} # which is replaced with what follows it
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$word"}")
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _vizier vizier
