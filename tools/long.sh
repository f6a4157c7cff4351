#!/usr/bin/env bash
# Runs the long form of the tests of the binary whose name matches: long.sh REGEXP
set -eu -o pipefail
if ! go test -list "$1" ./cmd/instep | grep '^Test' >/dev/null; then # not -q: it would stop reading early
	echo "long.sh: no test in ./cmd/instep matches $1" >&2
	exit 1
fi
INSTEP_LONG=1 exec go test -count=1 -v -timeout 60m -run "$1" ./cmd/instep
