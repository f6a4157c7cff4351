//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPagesAreAccessible holds every page for people against the rules of axe-core: by day
// on a desktop, by night on a phone.
func TestPagesAreAccessible(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: no Chromium (Debian package chromium)")
	}
	axe, err := os.ReadFile(filepath.Join("..", "..", "bin", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("SKIPPED: no axe-core (tools/needs.sh installs it with npm)")
	}
	dir := t.TempDir()
	pages := publishedPages(t)
	pages["audit.html"], pages["runs.html"] = hostileAudit(t, "a.html"), hostileRuns(t)
	frames := ""
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		putFile(t, filepath.Join(dir, name), string(pages[name])+`<script src="axe.min.js"></script><script>
axe.run(document).then(r => parent.postMessage({page: `+"`"+name+"`"+`, passes: r.passes.length,
	violations: r.violations.map(v => ({rule: v.id, impact: v.impact, where: v.nodes.map(n => n.html)}))}, "*"))</script>`)
		frames += `<iframe src="` + name + `" width="100%" height="2000"></iframe>`
	}
	putFile(t, filepath.Join(dir, "axe.min.js"), string(axe))
	putFile(t, filepath.Join(dir, "all.html"), fmt.Sprintf(`<!DOCTYPE html><script>const all = []; addEventListener("message", m => {
	all.push(m.data); if (all.length == %d) document.documentElement.textContent = "AXE" + JSON.stringify(all) + "END" })</script>%s`, len(pages), frames))
	for mode, flags := range map[string][]string{
		"day, desktop": {"--window-size=1200,900"},
		"night, phone": {"--window-size=500,900", "--blink-settings=preferredColorScheme=0"},
	} {
		t.Run(mode, func(t *testing.T) { checkAxe(t, browser, filepath.Join(dir, "all.html"), flags, len(pages)) })
	}
}

// putFile writes a file and the directories that lead to it.
func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkAxe reports what axe-core finds of serious level, and logs the rest.
func checkAxe(t *testing.T, browser, page string, flags []string, pages int) {
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--allow-file-access-from-files", "--user-data-dir=" + t.TempDir(), "--virtual-time-budget=60000", "--dump-dom",
	}, flags...)
	out, err := exec.CommandContext(t.Context(), browser, append(args, "file://"+page)...).Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	_, found, _ := strings.Cut(string(out), "AXE")
	found, _, ok := strings.Cut(found, "END")
	var results []struct {
		Page       string
		Passes     int
		Violations []struct {
			Rule, Impact string
			Where        []string
		}
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(found)), &results); !ok || err != nil || len(results) != pages {
		t.Fatalf("axe-core came to no end: %v, %d of %d pages, %.500q", err, len(results), pages, out)
	}
	for _, r := range results {
		if r.Passes < 15 {
			t.Errorf("%s: only %d rules were passed: axe-core did not see the page", r.Page, r.Passes)
		}
		for _, v := range r.Violations {
			if v.Impact == "serious" || v.Impact == "critical" {
				t.Errorf("%s: %s (%s): %q", r.Page, v.Rule, v.Impact, v.Where)
				continue
			}
			t.Logf("%s: %s (%s): %q", r.Page, v.Rule, v.Impact, v.Where)
		}
	}
}

// publishedPages are the pages about a Source with one set, and about one with two.
func publishedPages(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	files := filepath.Join(dir, "museum")
	putFile(t, filepath.Join(files, "ship plans", "Barque Concordia, longitudinal section.txt"), "plan")
	putFile(t, filepath.Join(files, "letters", "1871.txt"), "letter")
	config := filepath.Join(dir, "site.yaml")
	putFile(t, config, "base_url: https://archive.example.org/\ndir: museum\nout: two\nstate: two-state\nsource: {title: The archive, description: All of it}\n"+
		"sets:\n  - {name: plans, title: Ship plans, include: [\"ship plans/**\"]}\n  - {name: letters, include: [\"letters/**\"], dumps: true}\n")
	t.Chdir(dir)
	publish := func(args ...string) {
		t.Helper()
		if code := run(append([]string{"publish", "-q"}, args...), io.Discard, io.Discard); code != 0 {
			t.Fatalf("instep publish %q: exit code %d", args, code)
		}
	}
	for _, text := range []string{"letter", "another"} {
		putFile(t, filepath.Join(files, "letters", "1872.txt"), text)
		publish(files, "--out", filepath.Join(dir, "one"), "--base-url", "https://museum.example.org/collection/", "--title", "The museum",
			"--contact", "desk@museum.example.org", "--licence", "https://creativecommons.org/licenses/by/4.0/")
		publish("-c", config)
	}
	pages := map[string][]byte{}
	for name, path := range map[string]string{
		"about.html": "one/resourcesync/about.html", "set.html": "one/resourcesync/set.html",
		"about-sets.html": "two/resourcesync/about.html", "set-named.html": "two/resourcesync/sets/letters/set.html",
	} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = text
	}
	return pages
}
