#!/usr/bin/env bash
# Takes pictures of the pages for people with a headless browser: a museum publishes, a
# library mirrors it, and both look at what they have. screenshots.sh DIR puts them below
# DIR; "screenshots.sh --pages DIR" leaves the pages themselves there, for other checks.
set -euo pipefail

only_pages=
if [ "$1" = --pages ]; then
	only_pages=yes
	shift
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
instep=$PWD/bin/instep
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$only_pages" ] && [ -z "$browser" ]; then
	echo "screenshots: no Chromium on this machine (Debian package chromium)" >&2
	exit 1
fi

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state
cd "$work"

# bytes N SEED FILE: N bytes that are the same each time.
bytes() { { seq -f "$2 %.0f" 1 "$(($1 / 4))" || true; } | head -c "$1" >"$3"; }

# make_site fills the museum and publishes it, with a few changes afterwards.
make_site() {
	mkdir -p museum/photographs museum/letters "museum/ship plans"
	for i in $(seq 1 240); do bytes $((90000 + i * 577)) "plate $i" "museum/photographs/plate-$(printf %03d "$i").jpg"; done
	for i in $(seq 1 60); do bytes $((900 + i * 31)) "letter $i" "museum/letters/$((1870 + i)).txt"; done
	publish --title "The Harbour Museum" --contact desk@museum.example.org --licence https://creativecommons.org/licenses/by-sa/4.0/ \
		--description "Photographs, letters and ship plans of the harbour from 1870 to today."
	"$instep" sync -q "$url" mirror
	bytes 4000 new museum/letters/1901.txt
	bytes 310000 barque "museum/ship plans/Barque Concordia, longitudinal section.tif"
	bytes 120000 fog museum/photographs/harbour-in-the-fog.jpg
	rm museum/letters/1877.txt
	publish
}

publish() { "$instep" publish -q museum --base-url "$url" "$@" >/dev/null 2>&1; }

# make_reports audits the mirror when it is right and when it is not.
make_reports() {
	"$instep" sync -q "$url" mirror
	"$instep" audit -q --report good.html "$url" mirror >/dev/null 2>&1
	bytes 2000 damage mirror/photographs/plate-017.jpg
	rm mirror/letters/1890.txt mirror/letters/1891.txt
	"$instep" audit -q --report bad.html "$url" mirror >/dev/null 2>&1 || [ $? = 3 ]
	"$instep" report --format html --out runs.html mirror >/dev/null 2>&1
}

# shot NAME PAGE WIDTH HEIGHT [dark]: a phone is a frame, since a window has a least width.
shot() {
	local page=file://$work/$2 extra=()
	if [ "$3" -lt 500 ]; then
		printf '<!DOCTYPE html><body style="margin:0"><iframe src="%s" style="border:0;width:%spx;height:%spx"></iframe>' "$page" "$3" "$4" >frame.html
		page=file://$work/frame.html
	fi
	[ "${5:-}" != dark ] || extra=(--blink-settings=preferredColorScheme=0)
	rm -rf profile
	"$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync \
		--hide-scrollbars --allow-file-access-from-files --user-data-dir="$work/profile" --window-size="$3,$4" \
		"${extra[@]}" --screenshot="$work/$1.png" "$page" >shot.log 2>&1 || { cat shot.log >&2; exit 1; }
	if command -v pngquant >/dev/null; then
		pngquant --force --speed 1 --output "$1.png" 64 "$1.png"
	fi
	cp "$1.png" "$out/$1.png"
}

mkdir -p museum
"$instep" serve museum --addr 127.0.0.1:0 >serve.log 2>&1 &
server=$!
url=
while [ -z "$url" ]; do
	kill -0 "$server" || { cat serve.log >&2; exit 1; }
	url=$(sed -n 's/^Serving \(http[^ ]*\).*/\1/p' serve.log)
done
port=${url#http://127.0.0.1:} port=${port%/}
make_site
make_reports
for name in about set; do cp "museum/resourcesync/$name.html" "$name.html"; done
# The pictures show the address that the museum would have.
sed -i "s|127.0.0.1:$port|museum.example.org|g; s|./127.0.0.1|./museum.example.org|g; s|http://museum|https://museum|g; s|$work/||g" ./*.html

if [ -n "$only_pages" ]; then
	cp ./*.html "$out"
	exit
fi
shot about about.html 1000 1240
shot about-dark about.html 1000 1240 dark
shot about-phone about.html 390 1500
shot audit good.html 1000 1300
shot audit-differences bad.html 1000 1500
shot audit-phone bad.html 390 1700
shot runs runs.html 1000 1300
shot runs-dark runs.html 1000 1300 dark
ls -l "$out"
