#!/usr/bin/env bash
# Puts bin/instep, its man pages, completions and systemd units below $DESTDIR$PREFIX, or
# removes them:
#   install.sh [remove]
set -eu
to=${DESTDIR:-}${PREFIX:-/usr/local}
completions=(
	"bash share/bash-completion/completions/instep"
	"zsh share/zsh/site-functions/_instep"
	"fish share/fish/vendor_completions.d/instep.fish"
)

if [ "${1:-}" = remove ]; then
	rm -f "$to/bin/instep" "$to"/share/man/man1/instep.1 "$to"/share/man/man1/instep-*.1
	for c in "${completions[@]}"; do rm -f "$to/${c#* }"; done
	for unit in packaging/systemd/*; do rm -f "$to/lib/systemd/system/${unit##*/}"; done
	echo "removed from $to"
	exit
fi
install -D -m 0755 bin/instep "$to/bin/instep"
install -d "$to/share/man/man1"
install -m 0644 docs/man/*.1 "$to/share/man/man1/"
for c in "${completions[@]}"; do
	file=$to/${c#* }
	install -d "${file%/*}"
	bin/instep completion "${c%% *}" >"$file"
	chmod 0644 "$file"
done
install -d "$to/lib/systemd/system"
for unit in packaging/systemd/*; do
	sed "s|/usr/local/bin/instep|${PREFIX:-/usr/local}/bin/instep|" "$unit" >"$to/lib/systemd/system/${unit##*/}"
	chmod 0644 "$to/lib/systemd/system/${unit##*/}"
done
echo "installed below $to: bin/instep, man pages, completions for bash, zsh and fish, systemd units"
