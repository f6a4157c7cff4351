package resourcesync

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

func TestParsePriority(t *testing.T) {
	for _, s := range []string{"0", "1", "0.0", "1.0", "0.50", ".5", "1.", "0.00001"} {
		p, err := ParsePriority(" " + s + "\n")
		if err != nil || p.String() != s || p.IsZero() {
			t.Errorf("%q: got %q, %v", s, p, err)
		}
	}
	for _, s := range []string{"", " ", ".", "1.1", "2", "-0.5", "+0.5", "NaN", "Inf", "1e-1", "0x1p-2", "0,5", "0.5.5", "high"} {
		if p, err := ParsePriority(s); err == nil {
			t.Errorf("%q: got %q, want an error", s, p)
		}
	}
	var p Priority
	if err := p.UnmarshalText([]byte("0.7")); err != nil || p.Float64() != 0.7 {
		t.Errorf("0.7: got %v, %v", p, err)
	}
	if err := p.UnmarshalText(nil); err != nil || !p.IsZero() {
		t.Errorf("empty: got %v, %v", p, err)
	}
}

func TestMessagesAreCutBetweenCharacters(t *testing.T) {
	if got, want := clip("a"+strings.Repeat("é", 60)), "a"+strings.Repeat("é", 39)+"…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Keys come by directory, then by name, and are URIs again.
func TestKeysAscendByDirectory(t *testing.T) {
	uris := []string{
		"", "a", "urn:isbn:1", "http://example.org/", "http://example.org/a", "http://example.org/a b", "http://example.org/b?c=d",
		"http://example.org/a/", "http://example.org/a/b", "http://example.org/a/c", "http://example.org/a-b/a", "http://example.org/a?u=http://x/y",
	}
	slices.SortFunc(uris, func(a, b string) int {
		dirA, dirB := a[:strings.LastIndex(a, "/")+1], b[:strings.LastIndex(b, "/")+1]
		return cmp.Or(strings.Compare(dirA, dirB), strings.Compare(a, b))
	})
	for i, uri := range uris {
		key := KeyOf(uri)
		if key.URI() != uri {
			t.Errorf("the key of %q is that of %q", uri, key.URI())
		}
		if i > 0 && KeyOf(uris[i-1]) >= key {
			t.Errorf("%q comes after %q", uris[i-1], uri)
		}
	}
}

// A misspelt capability is no other one, but the message about it names the one that is meant.
func TestMisspeltCapability(t *testing.T) {
	for text, want := range map[string]Capability{
		"ressourcelist": CapabilityResourceList, "ResourcLists": "", "chnagelist": CapabilityChangeList, "resourcelists": CapabilityResourceList,
		"changedump-archiv": CapabilityChangeDumpArchive, "frobnicate": "", "list": "", "changelist-notification": "",
	} {
		if got := nearCapability(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
