package webpage

import (
	"strings"
	"testing"
)

func TestAddressesBecomeLinks(t *testing.T) {
	for _, c := range []struct{ text, href, label string }{
		{"https://museum.example.org/terms", "https://museum.example.org/terms", "https://museum.example.org/terms"},
		{"desk@museum.example.org", "mailto:desk@museum.example.org", "desk@museum.example.org"},
		{"mailto:desk@museum.example.org", "mailto:desk@museum.example.org", "desk@museum.example.org"},
		{"https://creativecommons.org/licenses/by-sa/4.0/", "https://creativecommons.org/licenses/by-sa/4.0/", "CC BY-SA 4.0"},
		{"https://creativecommons.org/licenses/by/3.0/de/deed.en", "https://creativecommons.org/licenses/by/3.0/de/deed.en", "CC BY 3.0 de"},
		{"http://www.creativecommons.org/publicdomain/zero/1.0", "http://www.creativecommons.org/publicdomain/zero/1.0", "CC0 1.0"},
		{"https://creativecommons.org/publicdomain/mark/1.0/", "https://creativecommons.org/publicdomain/mark/1.0/", "Public Domain Mark 1.0"},
		{"https://creativecommons.org/licenses/", "https://creativecommons.org/licenses/", "https://creativecommons.org/licenses/"},
		{"The reading room, Monday to Friday", "", ""},
		{"Desk <desk@museum.example.org>", "", ""},
		{"javascript:alert(1)", "", ""},
		{"https:museum", "", ""},
		{"", "", ""},
	} {
		if got := Href(c.text); got != c.href {
			t.Errorf("Href(%q): got %q, want %q", c.text, got, c.href)
		}
		if got := Label(c.text); c.href != "" && got != c.label {
			t.Errorf("Label(%q): got %q, want %q", c.text, got, c.label)
		}
	}
}

func TestCommandsAreOneWordEach(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"instep", "sync", "https://example.org/a%20b/", "./example.org"}, "instep sync https://example.org/a%20b/ ./example.org"},
		{[]string{"echo", "it's", "", "a;b"}, `echo 'it'\''s' '' 'a;b'`},
	} {
		if got := Shell(c.words...); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// On a phone a table becomes a list, and a verdict is never broken in the middle of a word.
func TestTablesDoNotBreakWords(t *testing.T) {
	var b strings.Builder
	if err := New("test", `{{template "style"}}`, nil).Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]string{"\nth, td ": "overflow-wrap: break-word", ".word ": "white-space: nowrap", "\n.tag ": "white-space: nowrap", ".stack td ": "display: block"} {
		_, rest, _ := strings.Cut(b.String(), selector)
		if rule, _, _ := strings.Cut(rest, "}"); !strings.Contains(rule, want) || strings.Contains(rule, "anywhere") {
			t.Errorf("%q has {%s, want %q", selector, rule, want)
		}
	}
}

func TestPageIsWhole(t *testing.T) {
	page := New("test", `{{template "style"}}<p>{{template "linked" .Contact}}, {{size .Bytes}}, {{number .Count}}</p><code>{{shell "instep" .Contact}}</code>`, nil)
	var b strings.Builder
	if err := page.Execute(&b, map[string]any{"Contact": "desk@museum.example.org", "Bytes": int64(2154081667), "Count": int64(4012)}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"prefers-color-scheme: dark", `<a href="mailto:desk@museum.example.org">desk@museum.example.org</a>, 2.2 GB, 4,012`, "<code>instep desk@museum.example.org</code>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s\nwant %q in it", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "ZgotmplZ") || strings.Contains(b.String(), "url(") || strings.Contains(b.String(), "@import") {
		t.Errorf("got %s\nwant nothing refused and nothing from elsewhere", b.String())
	}
}
