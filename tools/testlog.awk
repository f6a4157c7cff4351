# Reads `go test -v` and prints what `go test` prints: of a package that passed its
# ok line, of one that failed the output of the tests that didn't pass. The tests that
# were skipped go to the file named by the variable skipped, with their reasons.

function reset() { split("", buffer); split("", owner); split("", passed); split("", reason); lines = 0; test = "" }

function show() { for (i = 0; i < lines; i++) if (!(owner[i] in passed)) print buffer[i] }

BEGIN { reset() }

/^=== (RUN|NAME|CONT|PAUSE) / { test = $3; next }

/^ *--- SKIP: / {
	print "the test " $3 ": " reason[$3] >> skipped
	passed[$3]; next
}

/^ *--- PASS: / { passed[$3]; if (test == $3) test = ""; next }

$0 == "PASS" || $0 == "FAIL" { next }

/^ok[ \t]/ || /^\?[ \t]/ { print; fflush(); reset(); next }

/^FAIL\t/ { show(); print; fflush(); reset(); next }

{
	if (match($0, /_test\.go:[0-9]+: /)) reason[test] = substr($0, RSTART + RLENGTH)
	owner[lines] = $0 ~ /^ *--- FAIL: / ? "" : test
	buffer[lines++] = $0
}

END { show() }
