#!/bin/sh
# Starts or updates the greeter; succeeds only when its health check passes.
set -eu
cd "$(dirname "$0")"

result=$(tenon-host service apply greeter --port-name http --health /healthz --bundle app -- node server.mjs)

printf '{"url": {"value": "%s", "sensitive": false}}\n' "${result##*url=}" > "$TENON_OUT/outputs.json"
