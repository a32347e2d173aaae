#!/bin/sh
# Prints a directory in memory where programs may be run and 2 GB are free, or nothing.
dir=/dev/shm
[ "$(df --output=fstype,avail -k $dir 2>/dev/null | awk 'END {print ($1 == "tmpfs" && $2 > 2000000)}')" = 1 ] || exit 0
probe=$(mktemp $dir/probe.XXXXXX 2>/dev/null) || exit 0
trap 'rm -f "$probe"' EXIT
printf '#!/bin/sh\necho %s\n' $dir >"$probe"
chmod +x "$probe"
"$probe" 2>/dev/null || true
