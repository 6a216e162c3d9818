#!/usr/bin/env bash
# A night under cron: nightly.sh PROJECT [WORKFLOW] [OPTION OF graphmill run ...]
# When there is something to tell, $ALERT gets it on its standard input (by default it goes to standard error, which
# cron mails). The exit code is graphmill's.
set -uo pipefail

project=${1:?usage: nightly.sh PROJECT [WORKFLOW] [OPTION ...]}
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

report=$(graphmill -C "$project" run "$@" --json 2>"$log")
code=$?

if [ "$code" -ne 0 ] && [ "$code" -ne 4 ]; then # 4: a batch is not ready, a later run goes on with it
    {
        echo "graphmill in $project: exit code $code"
        jq -r '"\(.workflow) \(.run_id) \(.outcome): \(.message); \(.totals.rejects) rejects, cost \(.totals.cost)"' <<<"$report"
        tail -n 20 "$log"
    } | bash -c "${ALERT:-cat >&2}"
fi
exit "$code"
