#!/bin/sh
# The last message is the answer; what happens on the way is told on standard
# error. Lines that are no events are passed over.
set -eu
{
  tee /dev/fd/3 | jq --unbuffered -rR '
    fromjson? | objects
    | if .type == "item.started" and .item.type == "command_execution" then "$ \(.item.command)"
      elif .type == "error" then .message // "error"
      elif .type == "turn.failed" then .error.message // "failed"
      else empty end' >&2
} 3>&1 | jq -nrR '[inputs | fromjson? | objects | select(.type == "item.completed" and .item.type == "agent_message") | .item.text]
  | last // error("the agent gave no answer")'
