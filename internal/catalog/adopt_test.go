package catalog

import (
	"errors"
	"testing"
	"time"

	"instep/resourcesync"
)

func TestAdoptTakesMembersAndChangesWithTheirOwnTimes(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c, err := Open(ctx, Options{Path: t.TempDir() + "/catalog.db", Create: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set, err := c.Facts.Set(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	change := func(kind resourcesync.Change, name string, minute int) Change {
		return Change{Change: kind, Datetime: now.Add(time.Duration(minute) * time.Minute),
			Resource: Resource{URI: "https://example.org/" + name, Path: name, Length: resourcesync.Bytes(int64(minute + 100))}}
	}
	fill := func(fail error) func(*Adoption) error {
		return func(a *Adoption) error {
			for _, ch := range []Change{
				change(resourcesync.Created, "a", -9), change(resourcesync.Created, "b", -9), change(resourcesync.Created, "a", -8),
				change(resourcesync.Deleted, "b", -7), change(resourcesync.Deleted, "never there", -6),
			} {
				if err := a.Hold(set, ch); err != nil {
					return err
				}
			}
			seq, err := a.Log(set, change(resourcesync.Updated, "a", 3)) // later than our clock
			if err == nil && seq != 42 {
				t.Errorf("number of the first change: got %d, want 42", seq)
			}
			if err == nil {
				err = a.Publish(set, 7, "{}", Finished{At: now, Documents: []Document{{Key: "k", Length: 1}}})
			}
			return errors.Join(err, fail)
		}
	}
	broken := errors.New("broken")
	if err := c.Publisher.Adopt(ctx, 41, map[string]string{"x": "y"}, fill(broken)); !errors.Is(err, broken) {
		t.Fatalf("a failing adoption: got %v", err)
	}
	if n, _, err := c.Facts.Count(ctx, set); err != nil || n != 0 {
		t.Fatalf("after a failing adoption: %d members, %v; want none", n, err)
	}
	if err := c.Publisher.Adopt(ctx, 41, map[string]string{"x": "y"}, fill(nil)); err != nil {
		t.Fatal(err)
	}
	n, bytes, err := c.Facts.Count(ctx, set)
	if err != nil || n != 1 || bytes != 92 {
		t.Errorf("got %d members of %d bytes, %v; want a alone, of 92", n, bytes, err)
	}
	if id, _, finished, err := c.Publisher.LastPublication(ctx, set); err != nil || id != 7 || !finished {
		t.Errorf("last publication: got %d, %t, %v; want 7, done", id, finished, err)
	}
	if id, err := c.Publisher.BeginPublication(ctx, set); err != nil || id <= 7 {
		t.Errorf("the next publication: got %d, %v; want more than 7", id, err)
	}
	next := []Change{change(resourcesync.Updated, "a", 0)}
	if err := c.Facts.Record(ctx, set, next); err != nil {
		t.Fatal(err)
	}
	if got := next[0]; got.Seq != 43 || !got.Datetime.After(now.Add(3*time.Minute)) {
		t.Errorf("the next change: got number %d of %s, want 43, after all that was adopted", got.Seq, got.Datetime)
	}
	if err := c.Publisher.Adopt(ctx, 0, nil, fill(nil)); !errors.Is(err, ErrState) {
		t.Errorf("a second adoption: got %v, want ErrState", err)
	}
}
