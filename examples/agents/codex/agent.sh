#!/bin/sh
# Codex as an agent of Vizier: the prompt comes on standard input, events go out
# as JSON lines, and filter.sh makes the answer out of them.
set -eu
if ! command -v codex >/dev/null 2>&1; then
  echo "codex is not installed; set another agent in .vizier/config.toml" >&2
  exit 127
fi
exec codex exec --json --full-auto --skip-git-repo-check -
