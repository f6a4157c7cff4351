#!/usr/bin/env bash
# Compares the names of the tests that ran in the last `make test` (bin/test.log) with those
# of another commit: testnames.sh COMMIT. It runs the tests of COMMIT in a worktree, once; the
# log is kept in bin. Tests that `make test` leaves to `make full` count with all of their
# subtests. A test that is gone has to be in tools/removed.txt with a reason.
set -eu -o pipefail
commit=$(git rev-parse --verify "$1^{commit}")
if [ ! -s bin/test.log ]; then
	echo "testnames.sh: there is no bin/test.log; run make test first" >&2
	exit 1
fi
log=bin/test-$commit.log
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT

if [ ! -s "$log" ]; then
	echo "running the tests of $commit"
	git worktree add --quiet --detach "$work/tree" "$commit"
	(cd "$work/tree" && env -u TMPDIR go test -v -vet=off -short -timeout 60m ./...) >"$work/log" ||
		echo "some of them failed: $(grep -c '^FAIL[[:space:]]' "$work/log") packages"
	mv "$work/log" "$log"
fi

awk -f tools/testnames.awk "$log" | awk '
	BEGIN { OFS = "\t" }
	FILENAME == ARGV[1] { if ($2 == "is") { path[$1] = $3 } next }
	{ print $1 in path ? path[$1] : $1, $2 }' tools/removed.txt FS='\t' - | sort -u >"$work/before"
awk -f tools/testnames.awk bin/test.log | sort -u >"$work/now"
awk -F '\t' '
	FILENAME == ARGV[1] { now[$1 "\t" $2]; if ($3 == "full") full[$1 "\t" $2]; next }
	{
		name = $1 "\t" $2
		if (name in now) next
		for (above = name; sub("/[^/]*$", "", above) && above ~ /\t/;) if (above in full) next
		print name
	}' "$work/now" "$work/before" >"$work/gone"

lost=0
while IFS=$'\t' read -r package name; do
	if why=$(awk -v p="$package" -v n="${name%%/*}" '$1 == p && $2 == n { $1 = $2 = ""; sub("^ *", ""); print; found = 1 } END { exit !found }' tools/removed.txt); then
		echo "removed: $package $name: $why"
	else
		lost=$((lost + 1))
		echo "LOST: $package $name"
	fi
done <"$work/gone"
echo "$(wc -l <"$work/before") names of tests in ${commit:0:7}, $(cut -f 1,2 "$work/now" | sort -u | wc -l) now" \
	"($(grep -c 'full$' "$work/now" || true) of them in make full only), $(cut -f 1,2 "$work/now" | sort -u | comm -13 "$work/before" - | wc -l) new," \
	"$(wc -l <"$work/gone") gone, $lost of these without a reason"
[ "$lost" = 0 ]
