#!/bin/sh
# A gate in a shell script: every call that it lets through leaves two receipts, one before it runs and one after.
#
#   COUNTERFOIL=counterfoil ./run.sh gate.toml
#
# gate.toml names the log, its key, the issuer's key and the outbox:
#
#   log = "http://127.0.0.1:8080"
#   log_key = "log.example/agents+..."
#   key = "gate.key"
#   outbox = "outbox"
set -eu

config=${1:?name the configuration file; the first lines of this script say what is in it}
socket=$(mktemp -d)/gate.sock
"${COUNTERFOIL:-counterfoil}" sidecar --config "$config" --socket "$socket" &
sidecar=$!
trap 'kill $sidecar 2>/dev/null; wait $sidecar; rm -rf "$(dirname "$socket")"' EXIT

# call METHOD PATH [JSON]: the answer's body; fails where the sidecar refuses.
call() {
    curl --silent --show-error --fail-with-body --unix-socket "$socket" --request "$1" \
        --header 'Content-Type: application/json' ${3+--data "$3"} "http://localhost$2"
}
# member NAME: a string member of the JSON on standard input.
member() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

tries=0
until call GET /healthz >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] && kill -0 $sidecar || { echo "the sidecar does not start" >&2; exit 1; }
    sleep 0.1
done

# Denied: nothing runs.
call POST /v1/decisions '{"decision":"deny","authenticated":false,"operation":"disk.format","rule":"R2_UNSIGNED"}' >/dev/null
echo "denied: disk.format"

# Allowed. When this is answered, the decision is signed and on disk; only now does anything run.
decided=$(call POST /v1/decisions \
    '{"decision":"allow","authenticated":true,"operation":"host.name","action_class":"READ","rule":"R1_HARMLESS","args":{}}')
scope=$(echo "$decided" | member scope)
id=$(echo "$decided" | member receipt_id)
if answer=$(uname -n 2>&1); then
    call POST /v1/outcomes "{\"scope\":\"$scope\",\"result\":\"$answer\"}" >/dev/null
else
    call POST /v1/outcomes "{\"scope\":\"$scope\",\"error\":\"uname failed\"}" >/dev/null
fi
echo "allowed: host.name, receipt $id"

# The log's proof of the decision, for whoever asks later.
call POST /v1/flush '{"timeout_ms":60000}' >/dev/null
call GET "/v1/receipts/$id/proof" | head -n 1
