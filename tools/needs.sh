#!/usr/bin/env bash
# Installs what the tests use besides Go: XML parsers that are not ours, a tracer, servers, a
# browser. What can't be had is named, here and at the end of `make test`.
set -eu
tools/skipped.sh clear

# need PROGRAM PACKAGE WHAT: PACKAGE of the distribution has PROGRAM, for WHAT.
need() {
	command -v "$1" >/dev/null && return
	local why=
	if ! command -v apt-get >/dev/null; then
		why="no apt-get on this machine"
	elif [ "$(id -u)" != 0 ]; then
		why="not root; install it with: sudo apt-get install $2"
	else
		echo "installing $2 for $1"
		export DEBIAN_FRONTEND=noninteractive
		local install=(apt-get install -qq -y --no-install-recommends "$2")
		if ! { "${install[@]}" || { apt-get update -qq && "${install[@]}"; }; } >/dev/null 2>&1; then
			why="apt-get could not install $2"
		fi
	fi
	if [ -n "$why" ]; then
		tools/skipped.sh add "$3" "$why"
	fi
}

# needs_perl MODULE PACKAGE WHAT: PACKAGE has the module of Perl, for WHAT.
needs_perl() {
	perl -M"$1" -e 1 2>/dev/null || need "perl -M$1" "$2" "$3"
}

need xmllint libxml2-utils "the check of our documents by xmllint"
need python3 python3 "the comparison of our Decoder with expat"
need strace strace "what is left when a synchronisation is killed at each system call"
need lowntfs-3g ntfs-3g "a mirror on a file system that folds names"
need zstd zstd "patches of Zstandard applied by another program"
need xdelta3 xdelta3 "patches of VCDIFF made and applied by another program"
python3 -c 'import jsonpatch' 2>/dev/null || need python3-jsonpatch python3-jsonpatch "JSON Patches applied by another program"
need nginx nginx-light "nginx with the configuration of docs/webmaster.md"
need apache2 apache2 "Apache with the configuration of docs/webmaster.md"
need caddy caddy "Caddy with the configuration of docs/webmaster.md"
need rclone rclone "the upload to a bucket of docs/webmaster.md"
need systemd-analyze systemd "the units of systemd"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need initdb postgresql "queries of PostgreSQL as an input of a scan"
need chromium chromium "the accessibility of pages and reports"
axe=bin/axe/node_modules/axe-core/axe.min.js
if ! [ -e "$axe" ]; then
	npm install --prefix bin/axe --silent --no-audit --no-fund --ignore-scripts axe-core@4.14.1 >/dev/null 2>&1 ||
		tools/skipped.sh add "the accessibility of pages and reports" "npm could not install axe-core"
fi
needs_perl HTTP::OAI libhttp-oai-perl "the harvest of our OAI-PMH answers by another program"
needs_perl Dancer::Plugin::Catmandu::OAI libdancer-plugin-catmandu-oai-perl "the harvest of another OAI-PMH repository"
