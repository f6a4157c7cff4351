#!/usr/bin/env bash
# Checks that go.mod and go.sum, of the module and of examples, are what `go mod tidy`
# would write.
set -eu
code=0
for dir in . examples; do
	echo "go mod tidy -diff ($dir)"
	if out=$(cd "$dir" && go mod tidy -diff 2>&1); then
		continue
	fi
	if grep -q '^diff ' <<<"$out"; then
		echo "go.mod or go.sum is not tidy (go mod tidy in $dir mends it):"
		grep -v '^go: downloading ' <<<"$out"
		code=1
		continue
	fi
	tools/skipped.sh add "go mod tidy -diff ($dir)" "$(tail -n 1 <<<"$out")"
done
exit $code
