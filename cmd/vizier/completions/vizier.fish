# fish completion for vizier
function __vizier_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..-1] 2>/dev/null
end
complete -c vizier -f -a '(__vizier_complete)'
