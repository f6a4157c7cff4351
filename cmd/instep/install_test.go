//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall puts the program where make install does, runs it there, and takes it away.
func TestInstall(t *testing.T) {
	for _, needed := range []string{"make", "bash", "install"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so make install is not tested", needed)
		}
	}
	to := filepath.Join(t.TempDir(), "image")
	run := func(target string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", target, "DESTDIR="+to, "PREFIX=/opt/instep")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	run("install")
	at := func(name string) string { return filepath.Join(to, "opt", "instep", filepath.FromSlash(name)) }
	if out, err := exec.CommandContext(t.Context(), at("bin/instep"), "version").Output(); err != nil || !bytes.HasPrefix(out, []byte("instep ")) {
		t.Errorf("the program where it was put: %q, %v", out, err)
	}
	for name, has := range map[string]string{
		"share/man/man1/instep.1":                     ".TH",
		"share/man/man1/instep-sync.1":                ".TH",
		"share/bash-completion/completions/instep":    "complete ",
		"share/zsh/site-functions/_instep":            "#compdef instep",
		"share/fish/vendor_completions.d/instep.fish": "complete -c instep",
		"lib/systemd/system/instep-sync@.service":     "ExecStart=/opt/instep/bin/instep sync",
		"lib/systemd/system/instep-publish@.timer":    "[Timer]",
	} {
		text, err := os.ReadFile(at(name))
		if err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s: %v, want %q in it", name, err, has)
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		if out, err := exec.CommandContext(t.Context(), bash, "-n", at("share/bash-completion/completions/instep")).CombinedOutput(); err != nil {
			t.Errorf("bash reads the completion: %v\n%s", err, out)
		}
	}
	run("uninstall")
	err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("uninstall leaves %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSystemdUnits has systemd read the units that make install puts in place.
func TestSystemdUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: no systemd-analyze, so the units are not verified")
	}
	units, err := filepath.Glob("../../packaging/systemd/*")
	if err != nil || len(units) < 5 {
		t.Fatalf("got %d units, %v", len(units), err)
	}
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var instances []string
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// systemd-analyze asks for the program and the user.
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/instep"), []byte(program))
		instance := filepath.Join(dir, strings.Replace(filepath.Base(unit), "@.", "@museum.", 1))
		for _, name := range []string{filepath.Base(unit), filepath.Base(instance)} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		instances = append(instances, instance)
	}
	out, err := exec.CommandContext(t.Context(), analyze, append([]string{"verify", "--man=no"}, instances...)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "instep") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	if err != nil && len(out) == 0 {
		t.Errorf("systemd-analyze: %v", err)
	}
}
