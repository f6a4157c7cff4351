package scan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A link file that is not what it should be is refused as a whole, with the reason.
func TestLinkFileThatCannotBeUsedIsRefused(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"rel":"related","href":"https://example.org/"},`, maxRuleLinks+1), ",")
	for text, want := range map[string]string{
		``:      "expected an array of objects",
		`{}`:    "expected an array of objects",
		`[1]`:   "expected an array of objects",
		`[] []`: "expected the end of the link file after the array",
		`[{"rel":"license","href":"https://example.org/","title":"x"}]`: `unknown field "title"`,
		`[{"rel":"license"}]`: "link 1: expected a link with rel and href",
		`[{"rel":"License me","href":"https://example.org/"}]`:              "link 1: ",
		`[{"rel":"relatedto","href":"https://example.org/"}]`:               "registered relation",
		`[{"rel":"up","href":"https://example.org/"}]`:                      "links one document to another",
		`[{"rel":"license","href":"https://u:p@example.org/"}]`:             "a user name or a password",
		`[{"rel":"license","href":"../outside"}]`:                           "a file below the directory",
		`[{"rel":"license","href":"{nope}"}]`:                               "between braces",
		`[{"rel":"duplicate","href":"https://example.org/","pri":1000000}]`: "expected a pri",
		`[` + many + `]`: fmt.Sprintf("at most %d links, found %d", maxRuleLinks, maxRuleLinks+1),
	} {
		got, err := readLinks(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v; want an error with %q", text, got, err, want)
		}
	}
	got, err := readLinks(strings.NewReader(`[{"rel":"describedby","href":"{dir}{stem}.xml","type":"text/xml"},{"rel":"duplicate","href":"https://example.org/{path}","pri":2}]`))
	want := []Link{{Rel: "describedby", Href: "{dir}{stem}.xml", Type: "text/xml"}, {Rel: "duplicate", Href: "https://example.org/{path}", Pri: 2}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// Whatever a link file has, it is refused or has links that an entry can have.
func FuzzLinkFile(f *testing.F) {
	f.Add(`[{"rel":"describedby","href":"{dir}{stem}.xml","type":"text/xml","pri":3}]`)
	f.Add(`[{"rel":"https://example.org/terms/x","href":"{base}{path}"}]`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		links, err := readLinks(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range links {
			if err := links[i].Check(); err != nil {
				t.Errorf("link %d of %q: %v", i, text, err)
			}
		}
	})
}
