package repo

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tools/testnames.awk tells which tests ran, so that `make test-names` finds one that was lost.
func TestTestnamesAreThoseThatRan(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("SKIPPED: no awk on this machine")
	}
	const log = `=== RUN   TestFine
=== RUN   TestFine/seed_1795361224817531568
=== RUN   TestFine/http://127.0.0.1:40001
--- PASS: TestFine (0.00s)
    --- PASS: TestFine/seed_1795361224817531568 (0.00s)
=== RUN   TestNeeds
    a_test.go:9: no xmllint on this machine
--- SKIP: TestNeeds (0.00s)
=== RUN   TestModel
    a_test.go:12: SKIPPED: it takes a while; run without -short
--- SKIP: TestModel (0.00s)
PASS
ok  	instep/a	0.002s
=== RUN   TestBad
    b_test.go:4: got 1, want 2
--- FAIL: TestBad (0.00s)
FAIL
FAIL	instep/b	0.005s
?   	instep/c	[no test files]
FAIL
`
	want := []string{
		"instep/a\tTestFine", "instep/a\tTestFine/http://127.0.0.1:PORT", "instep/a\tTestFine/seed_NUMBER",
		"instep/a\tTestModel\tfull", "instep/b\tTestBad",
	}
	cmd := exec.Command("awk", "-f", root+"/tools/testnames.awk")
	cmd.Stdin = strings.NewReader(log)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("names (-got +want):\n%s", d)
	}
}
