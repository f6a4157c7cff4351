package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write generated files anew")

// TestManPages keeps docs/man as the commands say; "make docs" writes it anew.
func TestManPages(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard, now: time.Now}
	a.out = &output{stdout: io.Discard, stderr: io.Discard}
	root := a.rootCommand()
	root.DisableAutoGenTag = true
	made := t.TempDir()
	date := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "instep", Manual: "Instep", Date: &date}, made); err != nil {
		t.Fatal(err)
	}
	withoutFalse(t, made)
	kept := filepath.Join(repoRoot, "docs", "man")
	if *update {
		if err := os.RemoveAll(kept); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(kept, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(texts(t, kept), texts(t, made)); diff != "" {
		t.Errorf("docs/man is not what the commands say (make docs writes it anew), -kept +made:\n%s", diff)
	}
}

// withoutFalse takes "[=false]" out of the pages: a flag without a value is a switch.
func withoutFalse(t *testing.T, dir string) {
	t.Helper()
	for name, text := range texts(t, dir) {
		text = strings.ReplaceAll(text, "[=false]", "")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = string(b)
	}
	return m
}
