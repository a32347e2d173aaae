#!/bin/sh
# The program talks about itself before it answers; that is progress, not the
# answer.
set -eu
exec awk '
  !answered && /^(Loaded cached credentials|Data collection is|Loading extension)/ { print > "/dev/stderr"; next }
  { answered = 1; print; fflush() }'
