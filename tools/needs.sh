#!/usr/bin/env bash
# Installs what the tests use besides Go: xmllint, as an XML parser that is not
# ours. What can't be had is named, here and at the end of `make test`.
set -eu
tools/skipped.sh clear
command -v xmllint >/dev/null && exit 0

why=
if ! command -v apt-get >/dev/null; then
	why="no apt-get on this machine"
elif [ "$(id -u)" != 0 ]; then
	why="not root; install it with: sudo apt-get install libxml2-utils"
else
	echo "installing libxml2-utils for xmllint"
	export DEBIAN_FRONTEND=noninteractive
	if ! { apt-get install -qq -y libxml2-utils || { apt-get update -qq && apt-get install -qq -y libxml2-utils; }; } >/dev/null 2>&1; then
		why="apt-get could not install libxml2-utils"
	fi
fi
if [ -n "$why" ]; then
	tools/skipped.sh add "the check of our documents by xmllint" "$why"
fi
