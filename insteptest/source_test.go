package insteptest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"instep/discover"
	"instep/fetch"
	"instep/resourcesync"
)

func get(t *testing.T, uri string) (status int, body []byte) {
	t.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// wrong counts the resources that do not come as they are said to be.
func wrong(t *testing.T, s *Source) (n int) {
	t.Helper()
	for uri, want := range s.Resources() {
		status, body := get(t, uri)
		sum := sha256.Sum256(body)
		if status != http.StatusOK || int64(len(body)) != want.Length || hex.EncodeToString(sum[:]) != want.SHA256 {
			n++
		}
	}
	return n
}

func TestASourceIsFoundAndServesWhatItSays(t *testing.T) {
	s := NewSource(t, Options{Resources: 30, Sets: 2, Dumps: true, Archives: true})
	c, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TrustSource(t.Context(), s.URL); err != nil {
		t.Fatal(err)
	}
	found, err := discover.Find(t.Context(), discover.Finder{Client: c}, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Sets) != 2 {
		t.Fatalf("got %d sets, want 2", len(found.Sets))
	}
	for _, set := range found.Sets {
		if len(set.ResourceLists) == 0 || len(set.ChangeLists) == 0 || len(set.Documents(resourcesync.CapabilityResourceDump)) == 0 {
			t.Errorf("%s lacks lists or dumps: %+v", set.URI, set)
		}
	}
	if n := len(s.Resources()); n != 30 || wrong(t, s) != 0 {
		t.Errorf("%d resources, %d of them wrong; want 30 and none", n, wrong(t, s))
	}
}

func TestASourceChangesAsTimeGoesOn(t *testing.T) {
	s, twin := NewSource(t, Options{Seed: 3}), NewSource(t, Options{Seed: 3})
	before := s.Resources()
	n := s.Advance(time.Minute)
	if n == 0 || maps.Equal(before, s.Resources()) {
		t.Errorf("%d changes in a minute", n)
	}
	if twin.Advance(time.Minute) != n {
		t.Error("the same seed gave other changes")
	}
	if n := wrong(t, s); n != 0 {
		t.Errorf("%d resources are wrong after the changes", n)
	}
}

func TestASourceMisbehavesOnRequest(t *testing.T) {
	s := NewSource(t, Options{})
	s.Misbehave("wrong-bytes=100%")
	if n := wrong(t, s); n != 20 {
		t.Errorf("%d of 20 resources are wrong, want all", n)
	}
	s.Behave()
	if n := wrong(t, s); n != 0 {
		t.Errorf("%d resources are wrong afterwards", n)
	}
	if Misbehaviours()["wrong-bytes"] == "" || Misbehaviours()["34"] == "" {
		t.Error("a quirk or a fault is missing from the list")
	}
}

func TestASingleDocumentIsOldOrWithdrawn(t *testing.T) {
	s := NewSource(t, Options{Seed: 3})
	uri := s.URL + "resourcesync/changes/1.xml"
	_, first := get(t, uri)
	s.Advance(time.Minute)
	s.Advance(time.Minute)
	_, present := get(t, uri)
	i := slices.IndexFunc(s.Documents(), func(d Document) bool { return d.URI == uri })
	if i < 0 || bytes.Equal(first, present) {
		t.Fatalf("%s is missing from %v, or never changed", uri, s.Documents())
	}
	d := s.Documents()[i]
	s.Override(map[string]Override{uri: {Cached: true, Back: d.Generations - 1}})
	if _, got := get(t, uri); !bytes.Equal(got, first) || d.Kind != "changelist" {
		t.Errorf("from the cache: got %q, want %q", got, first)
	}
	s.Override(map[string]Override{uri: {Status: http.StatusNotFound}})
	if status, _ := get(t, uri); status != http.StatusNotFound {
		t.Errorf("withdrawn: got %d", status)
	}
	s.Behave()
	if _, got := get(t, uri); !bytes.Equal(got, present) {
		t.Errorf("afterwards: got %q, want %q", got, present)
	}
}
