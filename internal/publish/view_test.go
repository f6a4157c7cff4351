package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/resourcesync"
	"instep/source"
)

func (w *world) view() *View {
	w.t.Helper()
	v, err := OpenView(w.t.Context(), w.site())
	if err != nil {
		w.t.Fatalf("OpenView: %v", err)
	}
	w.t.Cleanup(func() {
		if err := v.Close(); err != nil {
			w.t.Errorf("Close: %v", err)
		}
	})
	return v
}

// bytesOf reads what a view yields: change, path and bytes of each.
func (w *world) bytesOf(all iter.Seq2[source.Bitstream, error]) (found []string, err error) {
	w.t.Helper()
	for b, err := range all {
		if err != nil {
			return found, err
		}
		text := strings.TrimPrefix(b.Loc, base)
		if b.Change != "" {
			text = string(b.Change) + " " + text
		}
		if b.Open != nil {
			body, err := b.Open(w.t.Context())
			if err != nil {
				return found, err
			}
			content, err := io.ReadAll(resourcesync.NewVerifyReader(body, b.Length.Int64(), b.Digests))
			if err := errors.Join(err, body.Close()); err != nil {
				return found, err
			}
			text += " = " + string(content)
		}
		found = append(found, text)
	}
	return found, nil
}

func TestViewHasWhatIsThereNow(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	s := w.open()
	w.publish(s, What{})
	began := w.now
	v := w.view()
	var moments []time.Time
	for i := range 3 {
		w.write("room 1/item.txt", fmt.Sprint("state ", i))
		w.write("new.txt", fmt.Sprint("new ", i))
		if i == 1 {
			w.remove("room 2/item.txt")
		}
		w.publish(s, What{})
		moments = append(moments, w.now)
	}
	got, err := w.bytesOf(v.Resources(t.Context(), "", []string{base + "new.txt", base + "nothing", base + "room%202/item.txt", base + "room%200/item.txt"}))
	if diff := cmp.Diff([]string{"new.txt = new 2", "room%200/item.txt = item 0"}, got); diff != "" || err != nil {
		t.Errorf("Resources: %v (-want +got):\n%s", err, diff)
	}
	for from, want := range map[time.Time][]string{
		began:                         {"deleted room%202/item.txt", "updated new.txt = new 2", "updated room%201/item.txt = state 2"},
		moments[0].Add(time.Second):   {"deleted room%202/item.txt", "updated new.txt = new 2", "updated room%201/item.txt = state 2"},
		moments[1].Add(time.Second):   {"updated new.txt = new 2", "updated room%201/item.txt = state 2"},
		moments[2].Add(time.Second):   nil,
		moments[2].Add(9 * time.Hour): nil,
	} {
		got, err := w.bytesOf(v.Changes(t.Context(), "", from))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Changes from %s: %v (-want +got):\n%s", from, err, diff)
		}
	}
}

func TestViewRefuses(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	s := w.open()
	w.publish(s, What{})
	v := w.view()
	for name, c := range map[string]struct {
		all  iter.Seq2[source.Bitstream, error]
		want error
	}{
		"unknown set":          {v.Resources(t.Context(), "maps", []string{base}), source.ErrNoSet},
		"unknown set, changes": {v.Changes(t.Context(), "maps", w.now), source.ErrNoSet},
		"before all":           {v.Changes(t.Context(), "", w.now.Add(-time.Hour)), source.ErrForgotten},
	} {
		if _, err := w.bytesOf(c.all); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	w.write("room 0/item.txt", "changed since")
	if _, err := w.bytesOf(v.Resources(t.Context(), "", []string{base + "room%200/item.txt"})); !errors.As(err, new(*resourcesync.MismatchError)) {
		t.Errorf("other bytes than recorded: got %v, want a mismatch", err)
	}
	w.remove("room 0/item.txt")
	if _, err := w.bytesOf(v.Resources(t.Context(), "", []string{base + "room%200/item.txt"})); !errors.Is(err, source.ErrGone) {
		t.Errorf("no bytes: got %v, want ErrGone", err)
	}
	site := w.site()
	site.State = t.TempDir()
	if _, err := OpenView(context.Background(), site); err == nil {
		t.Error("a state that is not there was opened")
	}
}

// TestPackagesOnDemandOfAPublishedSite goes the way of instep serve.
func TestPackagesOnDemandOfAPublishedSite(t *testing.T) {
	w := newWorld(t)
	w.fill(2)
	s := w.open()
	w.publish(s, What{})
	h := source.NewPackageHandler(source.OnDemand{Data: w.view(), BaseURL: base, Now: w.o.Now})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"uris":["`+base+`room%201/item.txt"]}`))
	r.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	h.ServeHTTP(out, r)
	if out.Code != http.StatusOK || !strings.HasPrefix(out.Body.String(), "PK") {
		t.Errorf("got status %d, %.60q: want a package", out.Code, out.Body)
	}
}
