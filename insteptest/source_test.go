package insteptest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
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
