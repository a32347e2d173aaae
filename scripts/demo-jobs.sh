#!/bin/sh
# Runs a small DAG of real commands in a scratch git repository: jobs without
# templates. Usage: demo-jobs.sh PATH-TO-VIZIER
set -eu

vizier=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dir=$(mktemp -d "${TMPDIR:-/tmp}/vizier-demo.XXXXXX")
# The runner of the last job may still be writing when its job has ended.
trap 'rm -rf "$dir" 2>/dev/null || { sleep 1; rm -rf "$dir"; }' EXIT
trap 'exit 130' INT TERM
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.com
export GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.com NO_COLOR=1
export VIZIER_CONFIG_DIR="$dir/.no-config"

say() { if [ -t 1 ]; then printf '\n\033[1m# %s\033[0m\n' "$*"; else printf '\n# %s\n' "$*"; fi; }
run() { printf '$ vizier %s\n' "$*"; "$vizier" "$@"; }

cd "$dir"
git init -q -b main .
printf 'demo\n' >README
git add README && git commit -q -m 'first commit'

say "A build, two tests that share a lock, a package that a person approves, and an upload"
"$vizier" submit --name build --produce custom:binary:app -- sh -c 'sleep 0.3; echo "compiled app" | tee app' >/dev/null
unit=$("$vizier" submit --name unit-tests --need custom:binary:app --lock database -- sh -c 'sleep 0.3; grep compiled app')
load=$("$vizier" submit --name load-tests --need custom:binary:app --lock database -- sh -c 'test -f fixed || { echo "no fixtures yet" >&2; exit 3; }; echo "load ok"')
pack=$("$vizier" submit --name package --after "$unit" --after "$load" --approval --produce custom:archive:app -- tar -cf app.tar app)
ship=$("$vizier" submit --name upload --need custom:archive:app -- sh -c 'echo "uploaded $(wc -c <app.tar) bytes"')
run jobs schedule

say "Why is the package not built yet?"
run why "$pack"

say "The load tests fail, so what depends on them is blocked, and Vizier says by what"
"$vizier" wait "$load" "$ship" || true
run jobs schedule --all
run tail "$load"
run why "$ship"

say "Mend the cause, look at what a retry would do, and retry"
touch fixed
run retry "$load" --dry-run
printf '$ vizier retry %s\n' "$load"
"$vizier" retry "$load" >/dev/null
run wait "$load"

say "Now only the approval is missing: grant it, and wait for the end"
run jobs approve "$pack"
run wait "$ship"
run tail "$ship"
run jobs schedule --all --format dag
