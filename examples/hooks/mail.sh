#!/bin/sh
# A mail to $VIZIER_MAIL_TO, by sendmail. In .vizier/config.toml:
#
#   [hooks.mail]
#   on = ["attention", "failed", "run.failed"]
#   command = "VIZIER_MAIL_TO=ann@example.com sh /usr/local/share/vizier/hooks/mail.sh"
# What a job says of itself may be anything: of header fields only one line.
line() { printf '%s' "$1" | tr '[:cntrl:]' ' '; }
exec sendmail -t <<END
To: ${VIZIER_MAIL_TO:?}
Subject: $(line "[vizier] $VIZIER_REF $VIZIER_JOB_NAME: $VIZIER_EVENT")
Content-Type: text/plain; charset=utf-8

$VIZIER_REASON

  $VIZIER_NEXT

in $VIZIER_ROOT
END
