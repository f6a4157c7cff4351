#!/usr/bin/env bash
# Checks that go.mod and go.sum are what `go mod tidy` would write.
set -eu
echo "go mod tidy -diff"
if out=$(go mod tidy -diff 2>&1); then
	exit 0
fi
if grep -q '^diff ' <<<"$out"; then
	echo "go.mod or go.sum is not tidy (go mod tidy mends it):"
	grep -v '^go: downloading ' <<<"$out"
	exit 1
fi
tools/skipped.sh add "go mod tidy -diff" "$(tail -n 1 <<<"$out")"
