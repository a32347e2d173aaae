#!/bin/sh
# Cancels jobs of Slurm's for Vizier: see docs/user/executors.md. It needs jq.
set -eu
export LC_ALL=C
said=$(jq -r '.jobs[].id' | xargs scancel 2>&1) || case $said in
*"Unable to contact"* | *"Connection refused"* | *"timed out"*) jq -n --arg said "$said" '{away: $said}' ;;
esac # else one was gone already
