package catalog

import (
	"strings"
	"testing"
	"time"
)

func begin(t *testing.T, c *Catalog, s SetID) int64 {
	t.Helper()
	id, err := c.Publisher.BeginPublication(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func expectLast(t *testing.T, c *Catalog, s SetID, id int64, body string, isDone bool) {
	t.Helper()
	gotID, gotBody, gotDone, err := c.Publisher.LastPublication(t.Context(), s)
	if gotID != id || gotBody != body || gotDone != isDone || err != nil {
		t.Errorf("LastPublication = %d, %q, %v, %v; want %d, %q, %v", gotID, gotBody, gotDone, err, id, body, isDone)
	}
}

func publish(t *testing.T, c *Catalog, s SetID, body string, docs []Document, retired ...string) int64 {
	t.Helper()
	id := begin(t, c, s)
	if err := c.Publisher.CommitPublication(t.Context(), s, id, epoch, body); err != nil {
		t.Fatal(err)
	}
	if err := c.Publisher.FinishPublication(t.Context(), id, Finished{Documents: docs, Retired: retired, At: epoch}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestPublicationIsBegunCommittedDone(t *testing.T) {
	c := open(t)
	s, other := set(t, c, ""), set(t, c, "other")
	expectLast(t, c, s, 0, "", false)
	lost := begin(t, c, s)
	id := begin(t, c, s)
	if id <= lost {
		t.Errorf("ids %d then %d: want a greater one", lost, id)
	}
	expectLast(t, c, s, 0, "", false)
	if err := c.Publisher.CommitPublication(t.Context(), s, lost, epoch, "x"); err == nil {
		t.Error("a publication was committed that a later one replaced")
	}
	if err := c.Publisher.FinishPublication(t.Context(), id, Finished{Documents: nil, Retired: nil, At: epoch}); err == nil {
		t.Error("a publication was finished that was not committed")
	}
	if err := c.Publisher.CommitPublication(t.Context(), s, id, epoch, "x"); err != nil {
		t.Fatal(err)
	}
	expectLast(t, c, s, id, "x", false)
	begin(t, c, s)
	expectLast(t, c, s, id, "x", false)
	for range 2 { // a run that was interrupted after the first finishes again
		if err := c.Publisher.FinishPublication(t.Context(), id, Finished{Documents: nil, Retired: nil, At: epoch}); err != nil {
			t.Fatal(err)
		}
		expectLast(t, c, s, id, "x", true)
	}
	expectLast(t, c, other, 0, "", false)
}

func TestOldPublicationsArePruned(t *testing.T) {
	c := open(t)
	s, other := set(t, c, ""), set(t, c, "other")
	kept := publish(t, c, other, "other", nil)
	for _, body := range []string{"1", "2", "3", "4"} {
		publish(t, c, s, body, nil)
	}
	var n int
	if err := c.read.QueryRow("SELECT COUNT(*) FROM publication WHERE set_id = $1", s).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d publications are kept, %v; want 2", n, err)
	}
	expectLast(t, c, other, kept, "other", true)
}

func TestDocumentsAreOursUntilForgotten(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	a1, a2 := Document{Key: "a", Length: 1, SHA256: [32]byte{1}}, Document{Key: "a", Length: 2, SHA256: [32]byte{2}}
	b := Document{Key: "b", Length: 3, SHA256: [32]byte{3}, Immutable: true}
	first := publish(t, c, s, "1", []Document{a1, b})
	expired := func(before time.Time, publication int64) string {
		return strings.Join(collect(t, c.Publisher.ExpiredDocuments(t.Context(), before, publication)), " ")
	}
	late := epoch.Add(time.Hour)
	if got := expired(late, first+9); got != "" {
		t.Errorf("expired before anything was retired: %q", got)
	}
	second := publish(t, c, s, "2", []Document{a2}, "a", "b", "never ours")
	for _, test := range []struct {
		before      time.Time
		publication int64
		want        string
	}{
		{late, second, "b"}, {late, first, ""}, {epoch, second, ""}, // a is in use again
	} {
		if got := expired(test.before, test.publication); got != test.want {
			t.Errorf("expired before %s, %d: %q, want %q", test.before, test.publication, got, test.want)
		}
	}
	for _, want := range []Document{a2, b} {
		if got, ok, err := c.Publisher.Document(t.Context(), want.Key); got != want || !ok || err != nil {
			t.Errorf("Document(%q) = %+v, %v, %v; want %+v", want.Key, got, ok, err, want)
		}
	}
	if err := c.Publisher.ForgetDocument(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"b", "never ours"} {
		if got, ok, err := c.Publisher.Document(t.Context(), key); ok || err != nil {
			t.Errorf("Document(%q) = %+v, %v, %v; want none", key, got, ok, err)
		}
	}
}
