#!/bin/sh
# One correction from wrong to fixed, to wrong again and fixed again. Needs a running service (`corrigenda up`), its
# address in CORRIGENDA_URL and an admin's token in CORRIGENDA_TOKEN. Safe to run again: each time is a new agent.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
agent="order-helper-$(date +%s)-$$"
run="$agent-1"
message='My lamp, order #1042, arrived broken. I want my money back.'

call() { # METHOD PATH [BODY]
    curl --silent --show-error --fail-with-body --request "$1" "$CORRIGENDA_URL$2" \
        --header "Authorization: Bearer $CORRIGENDA_TOKEN" ${3:+--header 'Content-Type: application/json' --data "$3"}
}
field() {
    "$python" -c 'import json, sys; v = json.load(sys.stdin)[sys.argv[1]]; print(v if v is str(v) else json.dumps(v))' "$1"
}
deploy() {
    call POST /v1/deploys "{\"subject\": {\"kind\": \"agent\", \"id\": \"$agent\"}, \"version\": \"$1\"}" >/dev/null
}
wait_until() { # STATUS
    for _ in $(seq 300); do
        status=$(call GET "/v1/corrections/$correction" | field status)
        [ "$status" = "$1" ] && break
        sleep 0.2
    done
    echo "   The correction is $status."
    [ "$status" = "$1" ]
}

# These are the lines of a pipeline: the set, your tests on it, and the gate.
pipeline() { # VERSION
    corrigenda test-set export --filter projectId=shop --filter "agentId=$agent" --output "$work/cases.jsonl"
    "$python" "$here/run_cases.py" "$1" <"$work/cases.jsonl" >"$work/results.jsonl"
    corrigenda test-run report "$work/results.jsonl" --project shop --agent "$agent" --version "$1"
}

echo "1. Version 1.0.0 runs, and a customer's run of it is corrected."
call PUT /v1/projects/shop '{"name": "Shop"}' >/dev/null
output=$("$python" "$here/agent.py" 1.0.0 "$message")
call PUT "/v1/runs/$run" "{\"projectId\": \"shop\", \"status\": \"completed\",
    \"subject\": {\"kind\": \"agent\", \"id\": \"$agent\", \"version\": \"1.0.0\"},
    \"input\": {\"message\": \"$message\"}, \"output\": $output}" >/dev/null
deploy 1.0.0
correction=$(call POST /v1/corrections "{\"runId\": \"$run\", \"decisions\": \"wrong\",
    \"shouldCall\": [{\"tool\": \"refund\", \"args\": {\"order\": 1042}}],
    \"mustNotCall\": [\"transfer_to_human\"], \"why\": \"What arrives broken is refunded at once.\"}" | field id)
wait_until with-owner

echo "2. Version 1.1.0 gets it right: the pipeline lets it go, and its deploy fixes the correction."
pipeline 1.1.0
deploy 1.1.0
wait_until fixed

echo "3. Version 1.2.0 gets it wrong again: the pipeline holds it."
if pipeline 1.2.0; then exit 1; else echo "   The gate says $?."; fi

echo "4. Somebody deploys it all the same: the correction is reopened."
deploy 1.2.0
wait_until with-owner
call GET "/v1/corrections/$correction" | field reopenedIn

echo "5. Back to 1.1.0, which is known to be right: fixed again."
deploy 1.1.0
wait_until fixed
call GET "/v1/corrections/$correction/history"
echo
