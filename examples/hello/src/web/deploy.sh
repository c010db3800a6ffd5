#!/bin/sh
# Starts or updates the page; succeeds only when its health check passes.
set -eu
cd "$(dirname "$0")"

greeter_url=$(node -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).url.value' \
  "$TENON_DEPENDENCIES/greeter.json")

result=$(tenon-host service apply web --port-name http --health /healthz --bundle app \
  --env "GREETER_URL=$greeter_url" -- node server.mjs)

printf '{"url": {"value": "%s", "sensitive": false}}\n' "${result##*url=}" > "$TENON_OUT/outputs.json"
