#!/bin/sh
# A message to a chat that takes {"text": …} at $VIZIER_WEBHOOK_URL, as Slack and Mattermost do, by curl.
# In .vizier/config.toml:
#
#   [hooks.chat]
#   on = ["approval.pending", "attention", "run.failed", "run.succeeded"]
#   command = ". ~/.config/vizier/webhook.env && sh /usr/local/share/vizier/hooks/webhook.sh"
#
# The file has `export VIZIER_WEBHOOK_URL=…`: the address is a secret, and the configuration is committed.
text="$VIZIER_REF $VIZIER_JOB_NAME: $VIZIER_EVENT $VIZIER_REASON
$VIZIER_NEXT"
# JSON: backslashes and quotes are escaped, control characters become spaces, but for the ends of lines.
json=$(printf '%s' "$text" | sed 's/[\\"]/\\&/g' | tr '\001-\011\013-\037\177' ' ' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }')
# The address comes by standard input: what stands on a command line everybody on the machine can read.
printf 'url = "%s"\n' "${VIZIER_WEBHOOK_URL:?}" |
	curl --config - --silent --show-error --fail --max-time 20 --retry 3 \
		--header 'Content-Type: application/json' --data-binary "{\"text\": \"$json\"}"
