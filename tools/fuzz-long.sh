#!/usr/bin/env bash
# Runs one fuzz target until it has used a time of processor and reached no new code
# for another: fuzz-long.sh TARGET [PACKAGE [MINUTES [QUIET]]]. Both are minutes of
# one processor, 30 and 5 unless told otherwise. What is found is kept in bin/fuzz;
# `make corpus` merges it into the corpus of the package.
# The fuzzer also calls an input interesting when it runs through known code another
# number of times, and of those there is no end. So the blocks of code of the package
# that all inputs reach are counted, by its coverage, after each time of quiet.
set -eu -o pipefail
target=$1 pkg=${2:-./resourcesync} most=$((60 * ${3:-30})) quiet=$((60 * ${4:-5}))
if [ ! -r /proc/self/stat ]; then
	echo "fuzz-long.sh: no /proc here; the time of processor can't be read" >&2
	exit 1
fi
root=$PWD
work=$root/bin/fuzz
mkdir -p "$work/cache"
go test -c -fuzz "^$target\$" -o "$work/$target.test" "$pkg"
go test -c -cover -o "$work/$target.cover" "$pkg"

set -m # the fuzzer and its workers get a process group of their own
cd "$pkg"
"$work/$target.test" -test.run '^$' -test.fuzz "^$target\$" -test.parallel 1 \
	-test.fuzzminimizetime 200x -test.fuzzcachedir "$work/cache" >"$work/$target.log" 2>&1 &
group=$!
trap 'kill -INT -- -$group 2>/dev/null || true' EXIT

# used prints the seconds of processor that the group has used, with the workers that
# were replaced.
# Others may end while they are looked at.
used() {
	{ cat /proc/[0-9]*/stat 2>/dev/null || true; } | awk -v group=$group -v hz="$(getconf CLK_TCK)" \
		'{ sub(/^.*\) /, "") } $3 == group { ticks += $12 + $13 + $14 + $15 } END { print int(ticks / hz) }'
}

# reached prints how many blocks of code the inputs found so far reach.
reached() {
	local dir=$work/reach/$target
	rm -rf "$dir"
	mkdir -p "$dir/testdata/fuzz"
	ln -s "$root/$pkg"/testdata/* "$dir/testdata/"
	ln -s "$work/cache/$target" "$dir/testdata/fuzz/$target"
	(cd "$dir" && "$work/$target.cover" -test.run "^$target\$" -test.coverprofile blocks.out >/dev/null)
	awk 'NR > 1 && $NF > 0' "$dir/blocks.out" | wc -l
}

cpu=0 mark=$((most > quiet ? most - quiet : 0)) blocks=-1 since=0 stopped=
while kill -0 $group 2>/dev/null; do
	sleep 5
	now=$(used)
	if [ "$now" -gt "$cpu" ]; then cpu=$now; fi # 0 when it has just ended
	if [ "$cpu" -lt "$mark" ]; then continue; fi
	before=$blocks blocks=$(reached)
	if [ "$blocks" = "$before" ]; then
		stopped=yes
		kill -INT -- -$group
		break
	fi
	echo "$target: $blocks blocks of code reached after $((cpu / 60)) minutes $((cpu % 60)) seconds of processor"
	since=$cpu mark=$((cpu + quiet))
done
code=0
wait $group || code=$?
found=$(grep -o 'new interesting: [0-9]*' "$work/$target.log" | tail -n 1 | tr -dc 0-9) || true
echo "$target: $((cpu / 60)) minutes $((cpu % 60)) seconds of processor, no new code in the last $(((cpu - since) / 60)) minutes $(((cpu - since) % 60)) seconds, $blocks blocks reached, ${found:-0} inputs kept in this run"
if [ "$stopped" != yes ]; then
	tail -n 40 "$work/$target.log" >&2
	echo "fuzz-long.sh: $target ended by itself (exit code $code)" >&2
	exit 1
fi
