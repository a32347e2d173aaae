#!/bin/sh
# Claude Code as an agent of Vizier: the prompt comes on standard input, events
# go out as JSON lines, and filter.sh makes the answer out of them. It may edit
# files; set CLAUDE_FLAGS for more, such as --model or --allowedTools.
set -eu
if ! command -v claude >/dev/null 2>&1; then
  echo "claude is not installed; set another agent in .vizier/config.toml" >&2
  exit 127
fi
# shellcheck disable=SC2086 # the flags are words
exec claude --print --verbose --output-format stream-json --permission-mode acceptEdits ${CLAUDE_FLAGS:-}
