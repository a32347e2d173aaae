#!/bin/sh
# Shows Vizier's main job in a scratch git repository: a specification becomes
# a plan, the plan a change, and the change one commit on main. Then what can
# go wrong on the way, and last, jobs without templates.
# Usage: demo.sh PATH-TO-VIZIER
set -eu

vizier=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/vizier-demo.XXXXXX")
# The runner of the last job may still be writing when its job has ended.
trap 'rm -rf "$dir" 2>/dev/null || { sleep 1; rm -rf "$dir"; }' EXIT
trap 'exit 130' INT TERM
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.com
export GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.com NO_COLOR=1
export VIZIER_CONFIG_DIR="$dir/no-config"

part() { printf '\n%s\n' "======== $* ========"; }
say() { if [ -t 1 ]; then printf '\n\033[1m# %s\033[0m\n' "$*"; else printf '\n# %s\n' "$*"; fi; }
show() { printf '$ %s\n' "$*"; "$@"; }
run() { printf '$ vizier %s\n' "$*"; "$vizier" "$@"; }
# queue enqueues a run, shows which, and leaves its id in $id.
queue() {
	printf '$ vizier run %s\n' "$*"
	id=$("$vizier" run -q "$@")
	printf 'Run: %s\n' "$id"
}
# ended waits for jobs, however they end.
ended() { "$vizier" wait "$@" >"$dir/ended" || true; }
# agent says what the agent is to do: what it is asked, the scratch
# repository's prompt, holds the commands that a model would have thought of.
agent() {
	cat >.vizier/prompts/APPROVE_PROMPTS.md
	git add -A && git commit -q -m "$1"
}

mkdir "$dir/repo" && cd "$dir/repo"
git init -q -b main . && git commit -q --allow-empty -m 'first commit'

part "1. A specification becomes a commit on main"
say "A repository for Vizier. Its agent, \"builtin\", is no model: it carries out the sh blocks of its prompt"
run init
printf 'agent = "builtin"\n' >.vizier/config.toml
printf '#!/bin/sh\nsh test.sh\n' >ci.sh
cat >.vizier/prompts/DRAFT_PROMPTS.md <<'END'
1. Write greet.sh, which greets whom it is given.
2. Write test.sh, which checks that.
END
printf 'A script that greets people by name\n' >SPEC.md
agent 'use vizier' <<'END'
Implement the plan.
```sh
printf 'echo "hello, $1"\n' >greet.sh
printf 'test "$(sh greet.sh Ann)" = "hello, Ann" && echo "greet.sh: ok"\n' >test.sh
sh test.sh
```
END

say "All three stages at once: nobody waits, and nobody says in which order"
queue draft --file SPEC.md --name greet; draft=$id
queue approve --name greet; approve=$id
queue merge --name greet --target main --cicd-script ./ci.sh; merge=$id

say "Before: the stages found their order by what they need of each other"
run jobs schedule
run why "$merge/merge_integrate"

say "During: the plan is drafted, and is being implemented"
ended "$draft/terminal"
run jobs schedule

say "After: the plan is merged, and this is its commit"
ended "$approve/terminal" "$merge/terminal"
run jobs schedule
show git log -1 --format='%h %s%n%n%b' --stat main
show sh test.sh

part "2. What can go wrong: a conflict, and checks that fail"
say "The plan shouts. While it is made, somebody else changes the same line on main"
printf 'Greet loudly\n' >SPEC.md
agent 'a second specification' <<'END'
```sh
printf 'echo "HELLO, $1"\n' >greet.sh
```
END
queue draft --file SPEC.md --name loud
queue approve --name loud; approve=$id
ended "$approve/terminal"
printf 'echo "good day, $1"\n' >greet.sh && git commit -q -a -m 'be polite'
queue merge --name loud --target main --cicd-script ./ci.sh --conflict-auto-resolve false; merge=$id
ended "$merge/merge_integrate" "$merge/merge_conflict_resolution"

say "The merge is blocked, main is as it was, and the conflict is marked as open"
run why "$merge/merge_conflict_resolution"
printf '$ cat .vizier/tmp/merge-conflicts/loud.json\n'
cat .vizier/tmp/merge-conflicts/loud.json

say "Resolve it in the worktree that it names, and retry"
worktree=$(sed -n 's/.*"worktree": "\(.*\)",/\1/p' .vizier/tmp/merge-conflicts/loud.json)
show cat "$worktree/greet.sh"
printf 'echo "GOOD DAY, $1"\n' >"$worktree/greet.sh"
show git -C "$worktree" add greet.sh
printf '$ vizier retry %s\n' "$merge/merge_conflict_resolution"
"$vizier" retry "$merge/merge_conflict_resolution" | sed -n '/^Retry root\|^Restarted/p'
ended "$merge/merge_conflict_resolution"
ended "$merge/terminal"
show git log --oneline -3 main

say "It is merged, but ./ci.sh fails: nobody told the test"
run why "$merge/terminal"
run tail "$merge/merge_gate_cicd"

say "Mend the test and retry the gate: the merge itself is done, and is not done twice"
printf 'test "$(sh greet.sh Ann)" = "GOOD DAY, Ann" && echo "greet.sh: ok"\n' >test.sh && git commit -q -a -m 'test the loud greeting'
printf '$ vizier retry %s\n' "$merge/merge_gate_cicd"
"$vizier" retry "$merge/merge_gate_cicd" | sed -n '/^Retry root\|^Restarted/p'
run wait "$merge/terminal"
run tail "$merge/merge_gate_cicd"
run jobs schedule
show git log --oneline -4 main
test "$(git log --format=%h --grep='merge plan loud' main | wc -l)" -eq 1

part "3. Jobs without templates"
sh "$here/demo-jobs.sh" "$vizier"

if [ -x "$(dirname "$vizier")/vizier-web" ]; then
	part "4. In the browser"
	page=$(dirname "$vizier")/demo.html
	"$vizier" jobs schedule --format html >"$page"
	printf 'All of part 1 and 2 on a page: open file://%s\nA repository as it lives: vizier web --open\n' "$page"
fi
