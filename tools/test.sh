#!/usr/bin/env bash
# Runs `go test -v` and prints what `go test` prints: test.sh LOG ARGUMENTS...
# LOG keeps everything. At the end the tests that were skipped are listed, with
# their reasons. Without TMPDIR the tests use the system's temporary directory.
# Vet is left to `make check`.
set -u -o pipefail
unset TMPDIR
log=$1
shift
mkdir -p bin
code=0
go test -v -vet=off -shuffle=on "$@" | tee "$log" | awk -v skipped=bin/skipped.txt -f tools/testlog.awk || code=$?
tools/skipped.sh show
exit $code
