#!/usr/bin/env bash
# Runs other people's programs against ours, both ways: what they need comes from the packages
# of the distribution, their code by git at the commits that the test names. FOREIGN=DIR names
# a directory that has (or gets) the checkouts as OWNER/REPO@COMMIT; none of it enters the tree.
set -eu
foreign=${FOREIGN:-${XDG_CACHE_HOME:-$HOME/.cache}/instep-foreign}
mkdir -p "$foreign"
if ! /usr/bin/python3 -c 'import dateutil, defusedxml' 2>/dev/null; then
	if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
		apt-get install -qq -y python3-dateutil python3-defusedxml >/dev/null || echo "SKIPPED: apt-get could not install python3-dateutil and python3-defusedxml"
	else
		echo "SKIPPED: python3-dateutil and python3-defusedxml are not installed"
	fi
fi
for want in resync/resync@3577a202b5bf44b9e2305cfd20c24387b51bce1f resync/resync@cb92fb4f2a94023b345c6274e0dce09815be4afb; do
	dir=$foreign/$want
	[ -d "$dir" ] && continue
	git init -q "$dir.part"
	if git -C "$dir.part" fetch -q --depth 1 "https://github.com/${want%@*}" "${want#*@}" && git -C "$dir.part" checkout -q FETCH_HEAD; then
		mv "$dir.part" "$dir"
	else
		rm -rf "$dir.part"
		echo "SKIPPED: $want cannot be had"
	fi
done
INSTEP_FOREIGN=$foreign go test ./cmd/instep -count=1 -v -timeout 20m -run '^TestForeignPrograms$' | grep -A100 'their Sources, our client' || {
	echo "the programs were not run"
	exit 1
}
