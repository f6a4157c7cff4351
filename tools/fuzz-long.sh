#!/usr/bin/env bash
# Runs one fuzz target until it has used a time of processor and nothing new was
# found for another: fuzz-long.sh TARGET [PACKAGE [MINUTES [QUIET]]]. Both are
# minutes of one processor, 30 and 5 unless told otherwise. What is found is kept in
# bin/fuzz; `make corpus` merges it into the corpus of the package.
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

cpu=0 news=0 newest=0 stopped=
while kill -0 $group 2>/dev/null; do
	sleep 5
	now=$(used)
	if [ "$now" -gt "$cpu" ]; then cpu=$now; fi # 0 when it has just ended
	found=$(grep -o 'new interesting: [0-9]*' "$work/$target.log" | tail -n 1 | tr -dc 0-9) || true
	if [ "${found:-0}" != "$news" ]; then news=$found newest=$cpu; fi
	if [ "$cpu" -ge "$most" ] && [ $((cpu - newest)) -ge "$quiet" ]; then
		stopped=yes
		kill -INT -- -$group
		break
	fi
done
code=0
wait $group || code=$?
echo "$target: $((cpu / 60)) minutes $((cpu % 60)) seconds of processor, nothing new in the last $(((cpu - newest) / 60)) minutes $(((cpu - newest) % 60)) seconds, $news inputs new in this run"
if [ "$stopped" != yes ]; then
	tail -n 40 "$work/$target.log" >&2
	echo "fuzz-long.sh: $target ended by itself (exit code $code)" >&2
	exit 1
fi
