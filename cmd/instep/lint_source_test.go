package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/lint"
	"instep/lint/inputs"
)

// shown is the lines around places of a text as people see them.
func shown(text string, places ...place) []string {
	in := &inputs.Input{Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
	findings := make([]lint.Finding, len(places))
	for i, p := range places {
		findings[i] = lint.Finding{Line: p.line, Column: p.column}
	}
	found := sourceLines(in, findings)
	lines := make([]string, len(places))
	for i, p := range places {
		if e := found[p]; e.text != "" {
			if lines[i] = e.text; e.caret >= 0 {
				lines[i] += "\n" + strings.Repeat(" ", e.caret) + "^"
			}
		}
	}
	return lines
}

func TestSourceLineShowsThePlace(t *testing.T) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := io.WriteString(zw, "<a>\n<b/>\n"); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ä", 100) + "<x/>" + strings.Repeat("ö", 100) + "\n<y/>"
	for name, c := range map[string]struct {
		text   string
		places []place
		want   []string
	}{
		"first and last":    {"<a>\n  <b/>", []place{{1, 1}, {2, 3}}, []string{"<a>\n^", "<b/>\n^"}},
		"within":            {"<a>\n\t<b x='1'/>\r\n</a>", []place{{2, 5}}, []string{"<b x='1'/>\n   ^"}},
		"any order":         {"a\nb\nc\n", []place{{3, 1}, {1, 1}, {3, 1}}, []string{"c\n^", "a\n^", "c\n^"}},
		"several of a line": {"<a><b/></a>", []place{{1, 4}, {1, 1}}, []string{"<a><b/></a>\n   ^", "<a><b/></a>\n^"}},
		"byte order mark":   {"\ufeff<a/>", []place{{1, 1}}, []string{"<a/>\n^"}},
		"compressed":        {packed.String(), []place{{2, 1}}, []string{"<b/>\n^"}},
		"far into a line": {long, []place{{1, 201}, {2, 1}}, []string{
			"…" + strings.Repeat("ä", 30) + "<x/>" + strings.Repeat("ö", 28) + "…\n" + strings.Repeat(" ", 31) + "^", "<y/>\n^",
		}},
		"controls":           {"<a>\x1b[31m\u202e</a>", []place{{1, 4}}, []string{"<a>\\u001b[31m\\u202e</a>\n   ^"}},
		"beyond the line":    {"<a>\n<b>\n", []place{{1, 9}, {2, 1}}, []string{"", "<b>\n^"}},
		"beyond the text":    {"<a>", []place{{7, 1}}, []string{""}},
		"no place":           {"<a>", []place{{0, 0}, {0, 1}}, []string{"", ""}},
		"no column":          {"<a>\n  <b/>", []place{{2, 0}, {2, 3}}, []string{"<b/>", "<b/>\n^"}},
		"not text":           {"\xff\xfe<\x00a\x00", []place{{1, 1}}, []string{""}},
		"in another charset": {"<a>\n<b x='\xe9'/>\n<c/>", []place{{2, 1}, {3, 1}}, []string{"", "<c/>\n^"}},
	} {
		if d := cmp.Diff(shown(c.text, c.places...), c.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", name, d)
		}
	}
}

func TestSourceLineIsLeftOutIfItCannotBeRead(t *testing.T) {
	in := &inputs.Input{Open: func() (io.ReadCloser, error) { return nil, errors.New("gone") }}
	if got := sourceLines(in, []lint.Finding{{Line: 1, Column: 1}}); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

func FuzzSourceLines(f *testing.F) {
	f.Add("<a>\n<b/>", 2, 1, 1, 3)
	f.Add("\xff\n\n", 1, 1, 3, 70)
	f.Fuzz(func(t *testing.T, text string, l1, c1, l2, c2 int) {
		for _, s := range shown(text, place{l1, c1}, place{l2, c2}) {
			first, _, _ := strings.Cut(s, "\n")
			if strings.ContainsFunc(first, steers) || strings.Count(s, "\n") > 1 {
				t.Errorf("a line that a terminal obeys: %q", s)
			}
		}
	})
}
