# fish completion for vizier
function __vizier_complete
    set -l word (commandline -ct)
    # a word in open quotes cannot be unescaped
    set word (string unescape -- $word; or string replace --all --regex '["\']' '' -- $word)[1]
    set -l words (commandline -opc) "$word"
    set -l found ($words[1] __complete $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        set -l path (commandline -ct)
        set -l flag (string match --regex '^--[^=]*=' -- $path)
        for found in (__fish_complete_path (string replace -- "$flag" '' $path))
            echo "$flag$found"
        end
    end
end
complete -c vizier -f -a '(__vizier_complete)'
