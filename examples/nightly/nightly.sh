#!/bin/sh
# A command of graphmill under cron: nightly.sh COMMAND [OPTION ...], such as nightly.sh run --max-cost 5
# When it fails, the command in $ALERT gets a message on its standard input. Without ALERT, or where that fails too,
# the message goes to standard error, which cron mails. The exit code is graphmill's.
# "graphmill init --nightly" writes the real paths here.
graphmill=/opt/graphmill/bin/graphmill
project=/srv/knowledge

# A full disk must not keep the alert from being sent.
if log=$(mktemp); then trap 'rm -f "$log"' EXIT; else log=/dev/null; fi

"$graphmill" -C "$project" "$@" >"$log" 2>&1 </dev/null
code=$?

tell() {
    echo "graphmill $1 in $project: exit code $code"
    tail -n 20 "$log"
}

# 4: a batch is not ready, a later run goes on with it
if [ "$code" -ne 0 ] && [ "$code" -ne 4 ]; then
    if [ -z "${ALERT:-}" ] || ! tell "$1" | sh -c "$ALERT"; then
        tell "$1" >&2
    fi
fi
exit "$code"
