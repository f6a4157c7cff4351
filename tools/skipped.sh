#!/usr/bin/env bash
# Remembers what `make test` could not do, so that it is said at the end.
#   skipped.sh clear | add WHAT WHY | show
set -eu
file=bin/skipped.txt
case $1 in
clear)
	mkdir -p bin
	: >"$file"
	;;
add)
	echo "!!! SKIPPED: $2: $3" >&2
	echo "$2: $3" >>"$file"
	;;
show)
	if [ -s "$file" ]; then
		echo "!!! SKIPPED in this run:"
		sed 's/^/!!!   /' "$file"
	else
		echo "nothing was skipped"
	fi
	;;
*)
	echo "skipped.sh: got $1, want clear, add or show" >&2
	exit 2
	;;
esac
