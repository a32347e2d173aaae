#!/bin/sh
# The result is the answer; the tools that are used on the way are told on
# standard error. An error as the result makes the filter fail, and the node.
set -eu
{
  tee /dev/fd/3 | jq --unbuffered -rR '
    fromjson? | objects | select(.type == "assistant") | .message.content[]? | select(.type == "tool_use")
    | "\(.name) \(.input.command // .input.file_path // "")"' >&2
} 3>&1 | jq -nrR '[inputs | fromjson? | objects | select(.type == "result")] | last
  | if . == null then error("the agent gave no result") elif .is_error then error(.result // "failed") else .result end'
