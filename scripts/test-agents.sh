#!/bin/sh
# Tests Vizier with the real Claude Code, Codex and Gemini CLI, which it
# installs from npm below the user's cache. They talk to a model on loopback. And
# its server for assistants with the inspector of MCP.
# Where npm or a package cannot be had, it says so and leaves.
# Usage: test-agents.sh [latest]: with latest, their newest versions, whose
# failures are told loudly and fail nothing.
set -u

claude=2.1.197 codex=0.169.0 gemini=0.61.0 inspector=0.15.0
name="claude-${claude}_codex-${codex}_gemini-${gemini}"
if [ "${1:-}" = latest ]; then
	claude=latest codex=latest gemini=latest inspector=latest name="latest-$(date +%Y-%m-%d)"
fi
cache="${XDG_CACHE_HOME:-$HOME/.cache}/vizier/test-agents"
dir="$cache/$name"

if ! command -v npm >/dev/null 2>&1 || ! command -v node >/dev/null 2>&1; then
	echo 'test-agents: skipped: no npm here'
	exit 0
fi
if [ ! -e "$dir/complete" ]; then
	if [ "$claude" = latest ]; then rm -rf "$cache"/latest-*; fi
	mkdir -p "$dir" || exit 1
	echo "test-agents: installing $name into $dir"
	if ! npm install --prefix "$dir" --no-fund --no-audit --loglevel error \
		"@anthropic-ai/claude-code@$claude" "@openai/codex@$codex" "@google/gemini-cli@$gemini"; then
		echo 'test-agents: skipped: npm cannot install the agents'
		exit 0
	fi
	: >"$dir/complete"
fi

if [ ! -e "$dir/inspector/node_modules/.bin/mcp-inspector" ]; then
	mkdir -p "$dir/inspector" && npm install --prefix "$dir/inspector" --no-fund --no-audit --loglevel error "@modelcontextprotocol/inspector@$inspector" ||
		echo 'test-agents: npm cannot install the inspector of MCP: it is skipped'
fi

VIZIER_TEST_AGENTS="$dir/node_modules/.bin" "${GO:-go}" test -count=1 -parallel 6 -timeout 20m ./proptest/agents &&
	VIZIER_TEST_INSPECTOR="$dir/inspector/node_modules/.bin/mcp-inspector" "${GO:-go}" test -count=1 -run Inspector ./cmd/vizier-mcp
code=$?
if [ "$code" != 0 ] && [ "$claude" = latest ]; then
	echo
	echo '******** test-agents: the newest versions of the agents do not pass: ********'
	for agent in claude codex gemini; do
		printf '%s ' "$agent" && "$dir/node_modules/.bin/$agent" --version 2>/dev/null
	done
	echo '******** see above; vizier is made for older ones ********'
	exit 0
fi
exit "$code"
