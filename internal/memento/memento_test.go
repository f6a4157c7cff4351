package memento_test

import (
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/memento"
)

func seq(all []memento.Memento) iter.Seq2[memento.Memento, error] {
	return func(yield func(memento.Memento, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// grammar is a link-value of RFC 6690 §2 as this package writes it.
var grammar = regexp.MustCompile(`^<[^<>" ]+>(; [a-z]+="[^"]*")+$`)

func TestATimeMapIsReadAsItWasWritten(t *testing.T) {
	for _, n := range []int{1, 2, 500} {
		want := memento.TimeMap{Original: "https://example.org/a,b;c", Self: "https://example.org/timemap/a,b;c", TimeGate: "https://example.org/timegate/a,b;c"}
		var versions []memento.Memento
		for i := range n {
			versions = append(versions, memento.Memento{
				URI: fmt.Sprintf("https://example.org/versions/%d/a,b;c", i), Datetime: time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC),
			})
		}
		var text strings.Builder
		if err := want.Write(&text, seq(versions)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text.String(), "\n"), ",\n") {
			if !grammar.MatchString(line) {
				t.Errorf("%q is no link-value", line)
			}
		}
		got, read, err := memento.ReadTimeMap(strings.NewReader(text.String()), want.Self)
		if err != nil || got != want {
			t.Errorf("read %+v, %v", got, err)
		}
		if diff := cmp.Diff(versions, read); diff != "" {
			t.Errorf("Mementos (-want +got):\n%s", diff)
		}
	}
}

func TestTimeMapsOfOthersAreRead(t *testing.T) {
	at := "Tue, 20 Jan 2026 09:00:00 GMT"
	for name, test := range map[string]struct {
		text string
		want []string // of Mementos; nil is an error
	}{
		"relations in any order, other attributes": {`<http://a.example.org/x>;rel="original", <http://b.example.org/1>; datetime="` + at + `"; rel="memento first"; license="http://c.example.org/"`, []string{"http://b.example.org/1"}},
		"relative":                {`</x>;rel=original,</1/x>;rel=memento;datetime="` + at + `"`, []string{"http://a.example.org/1/x"}},
		"URIs in URIs":            {`<http://b.example.org/1/http://a.example.org/x>;rel="memento";datetime="` + at + `"`, []string{"http://b.example.org/1/http://a.example.org/x"}},
		"a datetime that is none": {`</x>;rel="original",</1/x>;rel="memento";datetime="yesterday",</2/x>;rel="memento"`, []string{}},
		"a page":                  {"<html><body>no</body></html>", nil},
		"nothing":                 {"", nil},
		"links to something else": {`</x>; rel="next"`, nil},
		"carriage returns, tabs and an empty value": {"</x>\r\n\t;rel=\"original\" ,\r\n ,</1/x>\t;rel=\"memento\";datetime=\"" + at + "\",\r\n", []string{"http://a.example.org/1/x"}},
	} {
		_, all, err := memento.ReadTimeMap(strings.NewReader(test.text), "http://a.example.org/timemap/x")
		if (err != nil) != (test.want == nil) {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		got := []string{}
		for _, v := range all {
			got = append(got, v.URI)
		}
		if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEndlessTimeMapsAreRefused(t *testing.T) {
	one := `<http://a.example.org/1>;rel="memento";datetime="Tue, 20 Jan 2026 09:00:00 GMT",`
	for name, text := range map[string]string{
		"many Mementos": strings.Repeat(one, memento.MaxMementos+1),
		"many bytes":    one + strings.Repeat(" ", memento.MaxTimeMap),
	} {
		if _, _, err := memento.ReadTimeMap(strings.NewReader(text), "http://a.example.org/"); !errors.Is(err, memento.ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadTimeMap(f *testing.F) {
	f.Add(`<http://a.example.org/x>;rel="original",<http://b.example.org/1>;rel="first memento";datetime="Tue, 20 Jan 2026 09:00:00 GMT"`)
	f.Add("<>;rel=memento;datetime")
	f.Fuzz(func(t *testing.T, text string) {
		m, all, err := memento.ReadTimeMap(strings.NewReader(text), "http://a.example.org/")
		if err != nil || len(all) == 0 || strings.ContainsAny(m.Original+m.Self+m.TimeGate, "\"<>") {
			return
		}
		var out strings.Builder
		if err := m.Write(&out, seq(all)); err != nil {
			t.Fatal(err)
		}
		_, again, err := memento.ReadTimeMap(strings.NewReader(out.String()), "http://a.example.org/")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all, again); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	})
}
