# Reads `go test -v` and prints what `go test` prints: of a package that passed its
# ok line, of one that failed everything but the tests that passed. The tests that
# were skipped go to the file named by the variable skipped, with their reasons.

function reset() { split("", buffer); lines = 0; split("", reason); test = "" }

BEGIN { reset() }

/^=== (RUN|NAME|CONT|PAUSE) / { test = $3; next }

/^ *--- SKIP: / {
	print "the test " $3 ": " reason[$3] >> skipped
	next
}

/^ *--- PASS: / || $0 == "PASS" || $0 == "FAIL" { next }

/^ok[ \t]/ || /^\?[ \t]/ { print; fflush(); reset(); next }

/^FAIL\t/ {
	for (i = 0; i < lines; i++) print buffer[i]
	print; fflush(); reset(); next
}

{
	if (match($0, /_test\.go:[0-9]+: /)) reason[test] = substr($0, RSTART + RLENGTH)
	buffer[lines++] = $0
}

END { for (i = 0; i < lines; i++) print buffer[i] }
