# Reads the output of `go test -v` and prints a line for each test that ran, subtests too:
# package, tab, name. A test that is left to `go test` without -short is printed with a third
# column, "full". Other tests that were skipped are left out. Numbers, ports and directories
# that differ from run to run are replaced.

function plain(name) {
	gsub(/[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]+/, "NUMBER", name)
	gsub(/127\.0\.0\.1:[0-9]+/, "127.0.0.1:PORT", name)
	gsub(/\/tmp\/[^ ]*/, "TMP", name)
	return name
}

function reset() { split("", ran); split("", skipped); split("", reason); test = "" }

BEGIN { reset() }

/^=== (RUN|NAME|CONT|PAUSE) / { test = $3; if ($2 == "RUN") ran[$3]; next }

/^ *--- (PASS|FAIL): / { ran[$3]; next }

/^ *--- SKIP: / { skipped[$3]; next }

/^(ok|FAIL)[ \t]/ {
	for (t in ran) {
		if (!(t in skipped)) print $2 "\t" plain(t)
		else if (reason[t] ~ /-short/) print $2 "\t" plain(t) "\tfull"
	}
	reset(); next
}

/_test\.go:[0-9]+: / { reason[test] = reason[test] $0 }
