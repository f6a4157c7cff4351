package publish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"instep/internal/scan"
	"instep/resourcesync"
)

// listedWorld is a site whose set is what is in the list that it returns: each with a
// length, so that nothing has to be read.
func listedWorld(t *testing.T, n int) (*world, *[]scan.Listed) {
	w := newWorld(t)
	w.o.Dir = ""
	listed := make([]scan.Listed, n)
	for i := range listed {
		listed[i] = scan.Listed{URI: fmt.Sprintf("%sobjects/%d", base, i), Length: resourcesync.Bytes(int64(i)), Type: "text/x-first"}
	}
	w.set.Input = func(d scan.Deps) (scan.Input, error) {
		return &scan.List{Deps: d, Listing: func(context.Context, time.Time) iter.Seq2[scan.Listed, error] {
			return func(yield func(scan.Listed, error) bool) {
				for _, e := range listed {
					var err error
					if e.Type == "" {
						err = errors.New("it has no type")
					}
					if !yield(e, err) {
						return
					}
				}
			}
		}}, nil
	}
	return w, &listed
}

// types are those of the Resource List and how often each is there.
func (w *world) types() map[string]int {
	w.t.Helper()
	all := map[string]int{}
	for _, en := range w.linked("resourcelist").Entries {
		all[en.MD.Type]++
	}
	return all
}

// TestOtherLabelsArePublished: also when the run that found them fails.
func TestOtherLabelsArePublished(t *testing.T) {
	w, listed := listedWorld(t, 3)
	w.run()
	(*listed)[1].Type = "text/x-second"
	if rep := w.run(); !rep.Rebased || rep.Updated != 0 || w.types()["text/x-second"] != 1 {
		t.Errorf("got %+v, types %v; want a new Resource List", rep, w.types())
	}
	(*listed)[2].Type = "text/x-third"
	w.interrupt()
	if rep := w.run(); !rep.Rebased || w.types()["text/x-third"] != 1 {
		t.Errorf("after a failure: got %+v, types %v; want a new Resource List", rep, w.types())
	}
	if rep := w.run(); rep.Published {
		t.Errorf("once more: got %+v, want nothing to publish", rep)
	}
	w.o.RebaseMin = time.Minute
	s := w.open()
	(*listed)[0].Type = "text/x-fourth"
	if rep := w.publish(s, What{}); rep.Published {
		t.Errorf("soon after a list: got %+v, want the next one later", rep)
	}
	w.now = w.now.Add(time.Minute)
	if rep := w.publish(s, What{}); !rep.Rebased || w.types()["text/x-fourth"] != 1 {
		t.Errorf("a minute later: got %+v, types %v", rep, w.types())
	}
}

func TestFailuresOfListedResourcesHaveTheirURI(t *testing.T) {
	w, listed := listedWorld(t, 3)
	(*listed)[1].Type = ""
	rep := w.run()
	if len(rep.Failures) != 1 || rep.Failures[0].URI != base+"objects/1" || !strings.Contains(rep.Failures[0].Err.Error(), "no type") {
		t.Errorf("got %+v, want the second to have failed", rep.Failures)
	}
}
