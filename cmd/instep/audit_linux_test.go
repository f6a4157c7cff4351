package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readOnly mounts a directory once more, where nothing can be written.
func readOnly(t *testing.T, dir string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a directory read-only needs root")
	}
	at := filepath.Join(t.TempDir(), "readonly")
	if err := os.Mkdir(at, 0o750); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "--bind", dir, at).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: nothing can be mounted: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", at).Run() })
	if out, err := exec.Command("mount", "-o", "remount,bind,ro", at).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: a mount can't be made read-only: %v %s", err, out)
	}
	return at
}

func TestMirrorThatCanOnlyBeReadIsAudited(t *testing.T) {
	l := newLiar(t) // that tells the truth here
	l.offer("/index.html", "a page")
	l.offer("/other.html", "another")
	source, dir := l.URL+"/capabilitylist.xml", filepath.Join(t.TempDir(), "mirror")
	if o := instep(t, "sync", source, dir); o.code != 0 {
		t.Fatalf("sync: exit code %d, %s", o.code, o.stderr)
	}
	at := readOnly(t, dir)
	before := listTree(dir)
	for name, args := range map[string][]string{"full": nil, "quick": {"--quick"}} {
		o := instep(t, append([]string{"audit", source, at}, args...)...)
		if o.code != 0 || o.Status != "in-sync" || *o.Same != 2 || !strings.Contains(o.stdoutWarnings(), "the mirror can only be read") {
			t.Errorf("%s audit: exit code %d, %+v, %v", name, o.code, o.summary, o.records)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := instep(t, "audit", source, at); o.code != exitDifferences || *o.Different != 1 {
		t.Errorf("audit of a damaged mirror: exit code %d, %+v", o.code, o.summary)
	}
	if o := instep(t, "audit", "--repair", source, at); o.code != exitFailed {
		t.Errorf("repair: exit code %d, want %d", o.code, exitFailed)
	}
	if after := listTree(dir); len(after) != len(before) {
		t.Errorf("the audits left %v, before them there was %v", after, before)
	}
	if o := instep(t, "audit", source, t.TempDir()); o.code != exitGuard {
		t.Errorf("audit of no mirror: exit code %d, want %d", o.code, exitGuard)
	}
}

// stdoutWarnings are the warnings among the records.
func (o *outcome) stdoutWarnings() string {
	var all []string
	for _, r := range o.records {
		if r.Type == "warning" {
			all = append(all, r.Message)
		}
	}
	return strings.Join(all, "\n")
}
