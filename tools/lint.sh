#!/usr/bin/env bash
# Runs golangci-lint as tools/go.mod pins it. The first run builds it, which takes
# a minute or two; where it can't be fetched, that is said aloud.
set -eu
tool=(go tool -modfile=tools/go.mod golangci-lint)
echo "golangci-lint"
if ! why=$("${tool[@]}" version 2>&1); then
	tools/skipped.sh add "golangci-lint" "it could not be built: $(tail -n 1 <<<"$why")"
	exit 0
fi
"${tool[@]}" run ./...
