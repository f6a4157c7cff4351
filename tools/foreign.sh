#!/usr/bin/env bash
# Runs other people's programs against ours, both ways, and writes docs/foreign.md. What they
# need comes from the packages of the distribution; their code from checkouts that FOREIGN=DIR
# has as DIR/OWNER/REPO, else by git clone, at the commits of testdata/foreign/checkouts.txt.
# It is kept as DIR/OWNER/REPO@COMMIT, DIR being FOREIGN or a cache; none of it enters the tree.
# Rows of programs that can't be had stay as the last run left them.
set -euo pipefail
foreign=${FOREIGN:-${XDG_CACHE_HOME:-$HOME/.cache}/instep-foreign}
mkdir -p "$foreign"
foreign=$(cd "$foreign" && pwd)
missing=()

# packages PACKAGE...: installs what is not here yet.
packages() {
	dpkg -s "$@" >/dev/null 2>&1 && return
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		missing+=("packages: not root, or no apt-get; install $*")
	elif ! { apt-get install -qq -y "$@" || { apt-get update -qq && apt-get install -qq -y "$@"; }; } >/dev/null 2>&1; then
		missing+=("packages: apt-get could not install all of $*")
	fi
}

# checkout OWNER/REPO@COMMIT
checkout() {
	local repo=${1%@*} commit=${1#*@} dir=$foreign/$1
	[ -d "$dir" ] && return
	rm -rf "$dir.part"
	mkdir -p "$dir.part"
	if git -C "$foreign/$repo" cat-file -e "$commit" 2>/dev/null; then
		git -C "$foreign/$repo" archive "$commit" | tar -x -C "$dir.part"
	elif ! { git init -q "$dir.part" && git -C "$dir.part" fetch -q --depth 1 "https://github.com/$repo" "$commit" && git -C "$dir.part" checkout -q FETCH_HEAD; } 2>/dev/null; then
		rm -rf "$dir.part"
		missing+=("$1: neither in $foreign nor to be cloned")
		return
	fi
	mv "$dir.part" "$dir"
}

packages python3-dateutil python3-defusedxml python3-paramiko python3-requests python3-scp python3-tornado python3-validators python3-yaml ruby ruby-mime-types ruby-zip
while read -r want; do checkout "$want"; done <cmd/instep/testdata/foreign/checkouts.txt

mkdir -p bin
code=0
INSTEP_FOREIGN=$foreign go test ./cmd/instep -count=1 -v -timeout 30m -run '^TestForeignPrograms$' -update >bin/foreign.log 2>&1 || code=1
if [ $code != 0 ]; then
	echo "some program gave what its row cannot take, so no row is written anew; all of it is in bin/foreign.log:"
	grep -E '^ *foreign_real[a-z_]*\.go:[0-9]+: ' bin/foreign.log | grep -v '^ *foreign_real_test.go:[0-9]*: /' || tail -n 5 bin/foreign.log
fi
go test ./cmd/instep -count=1 -run '^TestForeignSources$' -update >>bin/foreign.log 2>&1 || { tail -n 30 bin/foreign.log; exit 1; }
grep '^[|#-]' docs/foreign.md
for m in "${missing[@]}"; do echo "NOT TO BE HAD: $m"; done
grep -E -o 'NOT RUN: .*' bin/foreign.log | sort | uniq -c || true
echo "run for real: $(grep -c -E '^    --- PASS: TestForeignPrograms/' bin/foreign.log || true), not run: $(grep -c -E '^    --- SKIP: TestForeignPrograms/' bin/foreign.log || true), failed: $(grep -c -E '^    --- FAIL: TestForeignPrograms/' bin/foreign.log || true)"
exit $code
