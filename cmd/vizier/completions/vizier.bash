# bash completion for vizier
_vizier() {
    # $2 is what a candidate replaces: the end of the line, from the last = or : or opening quote on.
    local line=${COMP_LINE:0:COMP_POINT} quote='' begun='' kept='' in='' words=('') last=0 i c
    local start=$((${#line} - ${#2}))
    COMPREPLY=()
    for ((i = 0; i <= ${#line}; i++)); do
        if ((i == start)); then
            kept=${words[last]} in=$quote
        fi
        c=${line:i:1}
        case $quote$c in
        '') ;;
        [[:space:]])
            if [[ $begun ]]; then
                words[++last]='' begun=''
            fi
            ;;
        \' | \") quote=$c begun=1 ;;
        \'\' | \"\") quote='' ;;
        \\ | \"\\)
            begun=1
            if [[ ! $quote || ${line:i+1:1} == [\\\"\$\`] ]]; then
                ((++i))
                c=${line:i:1}
            fi
            words[last]+=$c
            ;;
        *) words[last]+=$c begun=1 ;;
        esac
    done
    while IFS= read -r line; do
        line=${line%%$'\t'*}
        line=${line#"$kept"}
        case $in in
        \') line=${line//\'/$'\'\\\'\''} ;;
        \")
            line=${line//\\/\\\\} line=${line//\$/\\\$} line=${line//\`/\\\`}
            line=${line//\"/\\\"} line=${line//!/$'"\'!\'"'}
            ;;
        *) [[ ! $line ]] || printf -v line %q "$line" ;;
        esac
        if [[ $in && $line == *"$in" ]]; then
            line+=$in # bash adds none after another one
        fi
        COMPREPLY+=("$line")
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _vizier vizier
