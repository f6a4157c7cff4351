package harvest

import (
	"errors"
	"strings"
	"testing"

	"instep/fetch"
)

func TestAListThatCannotBeUsedIsNamedOnce(t *testing.T) {
	const uri = "https://example.org/changes.xml"
	for _, err := range []error{
		&DocumentError{URI: uri, Reason: "cannot be used", Err: errors.New("line 1")},
		&DocumentError{URI: uri, Reason: "has no \"from\" attribute"},
		&fetch.Error{Op: "get", URL: uri, Kind: fetch.NotFound, Msg: "expected 200, got 404"},
		errors.New("no room"),
	} {
		got := notUsable("Change List", uri, err)
		if text := got.Error(); strings.Count(text, uri) != 1 || strings.Count(text, "cannot be used") > 1 || !strings.HasPrefix(text, "the Change List ") {
			t.Errorf("%q: want the URI once", text)
		}
		if !errors.Is(got, err) {
			t.Errorf("%q does not wrap its cause", got)
		}
	}
}
