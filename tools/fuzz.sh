#!/usr/bin/env bash
# Runs every fuzz target for a time: fuzz.sh TIME PACKAGES...
set -eu -o pipefail
time=$1
shift
found=0
for pkg in $(go list "$@"); do
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		found=1
		echo "$pkg $target for $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
	done
done
if [ "$found" = 0 ]; then
	echo "fuzz.sh: no fuzz target in $*" >&2
	exit 1
fi
