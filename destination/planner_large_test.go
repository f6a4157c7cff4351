package destination_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"testing"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// vast is a mirror of 2,600,000 members that are made up as they are asked for. Whoever
// asks for all of them gets a nil method, and so a panic.
type vast struct {
	destination.Mirror
	cursor destination.Cursor
}

func (vast) Documents() fetch.Cache                 { return nil }
func (vast) Sets(context.Context) ([]string, error) { return nil, nil }

func (vast) Lookup(_ context.Context, _ string, uris []string) ([]destination.Held, error) {
	held := make([]destination.Held, len(uris))
	for i, uri := range uris {
		held[i] = destination.Held{URI: uri, Path: uri, Stored: true, Length: resourcesync.Bytes(1), Member: true, Changed: t0}
	}
	return held, nil
}

func (vast) Stray(context.Context, *harvest.Resource, *destination.Held) (string, bool, error) {
	return "", false, nil
}

func (vast) FindContent(context.Context, resourcesync.Digest, int64) (destination.Held, bool, error) {
	return destination.Held{}, false, nil
}
func (vast) Open(context.Context, *destination.Held) (io.ReadCloser, error) {
	return nil, fmt.Errorf("not asked for")
}
func (vast) Recall(context.Context, string) (string, bool, error) { return "", false, nil }
func (vast) Count(context.Context, string) (int64, error)         { return 2_600_000, nil }
func (vast) Losses(context.Context, string) (destination.Losses, error) {
	return destination.Losses{Members: 2_600_000}, nil
}
func (vast) Approved(context.Context, string) (bool, error) { return false, nil }
func (vast) Due(context.Context, string) iter.Seq2[destination.Held, error] {
	return func(func(destination.Held, error) bool) {}
}
func (v vast) Cursor(context.Context, string) (destination.Cursor, bool, error) {
	return v.cursor, true, nil
}

// planVast plans n changes in a set of 2,600,000 resources.
func planVast(tb testing.TB, d *destination.Destination, n int) {
	plan, err := d.Plan(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer plan.Close()
	if sp := plan.Sets[0]; sp.Mode != destination.Incremental || sp.Updated != int64(n*3/4) || sp.Deleted != int64(n/4) || sp.Requests != int64(n*3/4) {
		tb.Fatalf("plan: got %s, %+v, %d requests, want an increment of %d updates and %d deletions", sp.Mode, sp.Counts, sp.Requests, n*3/4, n/4)
	}
}

func newVast(t testing.TB, n int) *destination.Destination {
	s := newSource(t)
	s.put("/r", []byte("two"))
	sum := s.entry("/r")
	var changes []resourcesync.Entry
	for i := range n {
		e := resourcesync.Entry{Loc: s.uri(fmt.Sprintf("/r/%d", i)), Metadata: resourcesync.Metadata{Change: resourcesync.Updated, Datetime: at(1 + i)}}
		if i%4 == 0 {
			e.Change = resourcesync.Deleted
		} else {
			e.Length, e.Digests = sum.Length, sum.Digests
		}
		changes = append(changes, e)
	}
	s.list(0)
	s.changes(0, changes...)
	c, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.TrustSource(t.Context(), s.srv.URL); err != nil {
		t.Fatal(err)
	}
	return &destination.Destination{Source: s.uri("/"), Mirror: vast{cursor: destination.Cursor{Position: harvest.Position{At: t0}}}, Client: c, Spool: t.TempDir()}
}

// An increment costs what has changed, not what there is: no member is looked at that
// did not change.
func TestPlanOfAnIncrementIsIndependentOfTheSet(t *testing.T) {
	d := newVast(t, 1600)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	planVast(t, d, 1600)
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 200 {
		t.Errorf("memory allocated in all: got %d MiB, want at most 200", got)
	}
}
