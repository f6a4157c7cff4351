#!/usr/bin/env bash
# Measures the Destination beside that of an earlier commit: bench-pairs.sh COMMIT TABLE
# [RESOURCES OF THE LARGE SET].
set -eu -o pipefail
commit=$(git rev-parse --verify "$1^{commit}")
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT

git worktree add --quiet --detach "$work/tree" "$commit"
(cd "$work/tree" && go build -o "$work/instep" ./cmd/instep && go test -c -o "$work/bench.test" ./bench)
go test ./bench -count=1 -timeout 120m -run '^TestDestinationPairs$' -args -earlier "$work" -pairs "$2" -members "${3:-0}"
