#!/bin/sh
# Lists jobs of Slurm's for Vizier: see docs/user/executors.md. It needs jq.
set -eu
export LC_ALL=C
request=$(cat)
if ! lines=$(squeue --me -h -t all -o '%i|%T|%r|%N|%j' 2>&1); then
	jq -n --arg said "$lines" '{away: $said}'
	exit
fi
printf '%s\n' "$lines" | jq -R -s --argjson request "$request" '
	{PENDING: "pending", CONFIGURING: "pending", REQUEUED: "pending", COMPLETED: "succeeded", FAILED: "failed", CANCELLED: "cancelled",
	 TIMEOUT: "timeout", DEADLINE: "timeout", OUT_OF_MEMORY: "out_of_memory", NODE_FAIL: "lost", BOOT_FAIL: "lost", PREEMPTED: "preempted"} as $states |
	{jobs: [split("\n")[] | split("|") | select(length == 5 and (.[4] | startswith($request.prefix))) |
		{id: .[0], name: .[4], state: ($states[.[1]] // "running"), word: .[1], reason: .[2], node: .[3]}]}'
