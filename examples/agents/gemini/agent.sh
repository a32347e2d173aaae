#!/bin/sh
# Gemini as an agent of Vizier: the prompt comes on standard input and the
# answer goes to standard output as it is.
set -eu
if ! command -v gemini >/dev/null 2>&1; then
  echo "gemini is not installed; set another agent in .vizier/config.toml" >&2
  exit 127
fi
exec gemini --approval-mode auto_edit
