#!/bin/sh
# A notification on the desktop, by notify-send. In .vizier/config.toml:
#
#   [hooks.desktop]
#   on = ["attention", "run.failed", "run.succeeded"]
#   command = "sh /usr/local/share/vizier/hooks/desktop.sh"
case $VIZIER_EVENT in
attention | approval.pending) urgency=critical ;;
*) urgency=normal ;;
esac
exec notify-send --app-name=vizier --urgency="$urgency" -- \
	"$VIZIER_REF $VIZIER_JOB_NAME: $VIZIER_EVENT" "$VIZIER_REASON
$VIZIER_NEXT"
