package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tools/testlog.awk stands between `go test -v` and whoever reads `make test`.
func TestTestlogShowsFailuresAndSkips(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("SKIPPED: no awk on this machine")
	}
	const log = `=== RUN   TestFine
    a_test.go:3: only said with -v
--- PASS: TestFine (0.00s)
=== RUN   TestNeeds
    a_test.go:9: no xmllint on this machine
--- SKIP: TestNeeds (0.00s)
PASS
ok  	instep/a	0.002s
=== RUN   TestBeside
    b_test.go:2: only said with -v
--- PASS: TestBeside (0.00s)
=== RUN   TestBad
    b_test.go:4: got 1, want 2
--- FAIL: TestBad (0.00s)
FAIL
FAIL	instep/b	0.005s
?   	instep/c	[no test files]
=== RUN   TestDone
--- PASS: TestDone (0.00s)
=== RUN   TestEndless
panic: test timed out after 1s
FAIL	instep/d	1.005s
FAIL
`
	const want = `ok  	instep/a	0.002s
    b_test.go:4: got 1, want 2
--- FAIL: TestBad (0.00s)
FAIL	instep/b	0.005s
?   	instep/c	[no test files]
panic: test timed out after 1s
FAIL	instep/d	1.005s
`
	skipped := filepath.Join(t.TempDir(), "skipped.txt")
	cmd := exec.Command("awk", "-v", "skipped="+skipped, "-f", root+"/tools/testlog.awk")
	cmd.Stdin = strings.NewReader(log)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d := cmp.Diff(string(out), want); d != "" {
		t.Errorf("printed (-got +want):\n%s", d)
	}
	got, err := os.ReadFile(skipped)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(got), "the test TestNeeds: no xmllint on this machine\n"); d != "" {
		t.Errorf("skipped (-got +want):\n%s", d)
	}
}
