//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// steering are runes that no output may hold as they are.
var steering = []rune{
	0x00, 0x1b, 0x7f, 0x80, 0x85, 0x9b, 0x9f, 0x00ad, 0x061c, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029,
	0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2066, 0x2067, 0x2068, 0x2069, 0xfeff, 0xfff9, 0xe0001,
}

// TestURIsAreReadable: letters are shown, and what would make two URIs look alike is not.
func TestURIsAreReadable(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.org/%C3%96l%20auf%2FHolz%25.jpg": "https://example.org/Öl%20auf%2FHolz%25.jpg",
		"https://example.org/%E6%97%A5?q=%c3%a9#":         "https://example.org/日?q=é#",
		"https://example.org/%FF%80.txt":                  "https://example.org/%FF%80.txt",
		"https://example.org/%E2%80%AEgnp.exe":            `https://example.org/\u202egnp.exe`,
	} {
		if got := readableURI(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

// TestWhatSteersIsEscaped: in text as in JSON the rune is seen, and has no effect.
func TestWhatSteersIsEscaped(t *testing.T) {
	for _, r := range steering {
		text := "before" + string(r) + "after"
		shown := printable(text)
		if strings.ContainsRune(shown, r) || !strings.Contains(shown, `\u`) {
			t.Errorf("%U is shown as %q", r, shown)
		}
		if r < 0x20 {
			continue // encoding/json escapes these
		}
		var back string
		if err := json.Unmarshal(escapeSteering([]byte(`"`+text+`"`)), &back); err != nil || back != text {
			t.Errorf("%U in JSON: %q, %v", r, back, err)
		}
	}
	for in, want := range map[string]string{
		"\u202egnp.exe": `\u202egnp.exe`, "a\nb\tc": `a\u000ab\u0009c`, "caf\u00e9 \u65e5\u672c \u05d0\u05d1 \U0001f600": "caf\u00e9 \u65e5\u672c \u05d0\u05d1 \U0001f600",
		"\U000e0001": `\udb40\udc01`, "\x9b2J": "\ufffd2J", `\u202e`: `\u202e`,
	} {
		if got := printable(in); got != want || printable(got) != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestNoOutputSteers: what a Source puts into its documents, their URIs and media types
// reaches no output as it is: messages, lines, and reports of each form. The CSV of export
// is no report: it keeps each text as it was.
func TestNoOutputSteers(t *testing.T) {
	evil := ""
	for _, r := range steering {
		if r >= 0x80 { // no XML holds the others
			evil += string(r)
		}
	}
	h := newHostile(t)
	h.mux.HandleFunc("/x/", given("hello"))
	h.mux.HandleFunc("/gone/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	typed := fmt.Sprintf(`<url><loc>%s/x/typed%s</loc><rs:md type="text/%s" length="5"/></url>`, h.URL, evil, evil)
	h.site(urlset(resourceList, typed, listed(h.URL+"/x/"+evil, "hello"), listed(h.URL+"/gone/"+evil, "hello"), listed("http://a"+evil+".example/", "x")))
	dir := t.TempDir()
	m := filepath.Join(dir, "m")
	for _, args := range [][]string{
		{"sync", "-v", h.URL, m},
		{"audit", "-v", "--report", filepath.Join(dir, "r.html"), h.URL, m},
		{"audit", "--report", filepath.Join(dir, "r.csv"), h.URL, m},
		{"audit", "--report", filepath.Join(dir, "r.json"), h.URL, m},
		{"sync", "-n", h.URL, m},
		{"errors", "-v", m},
		{"report", m},
		{"report", "--format", "html", m},
		{"export", "--json", m},
		{"history", m},
		{"history", "-v", "--at", "2100-01-01T00:00:00Z", m},
		{"lint", h.URL},
		{"lint", "--format", "sarif", h.URL},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			if len(more) > 0 && (args[1] == "--json" || args[0] == "lint" && len(args) > 2 || args[len(args)-2] == "html") {
				continue
			}
			t.Run(strings.Join(append(args[:2:2], more...), " "), func(t *testing.T) {
				if o := attempt(t, append(args[:len(args):len(args)], more...)...); o.code == exitUsage {
					t.Errorf("%s", o.stderr)
				} else {
					checkShown(t, o.stdout+o.stderr)
				}
			})
		}
	}
	for _, name := range []string{"r.html", "r.csv", "r.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), `\u202e`) {
			t.Errorf("%s: %v; want the rune escaped", name, err)
		}
		checkShown(t, string(text))
	}
}

func checkShown(t *testing.T, text string) {
	t.Helper()
	for _, r := range steering {
		if i := strings.IndexRune(text, r); i >= 0 {
			t.Errorf("holds %U: %q", r, text[max(0, i-60):i+10])
			return
		}
	}
}
