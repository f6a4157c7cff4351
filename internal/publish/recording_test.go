package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
)

// push records what a file is now.
func (w *world) push(s *Session, name string) {
	w.t.Helper()
	r, release, err := s.Look(w.t.Context(), "", name)
	if err != nil {
		w.t.Fatalf("Look: %v", err)
	}
	w.record(s, catalog.Change{Resource: r})
	if release != nil {
		release()
	}
}

// packed are the states of each resource in the Change Dumps, in their order.
func (w *world) packed() map[string][]string {
	w.t.Helper()
	states := map[string][]string{}
	for _, d := range w.offered("changedump") {
		for _, en := range w.unpack(d) {
			states[en.Loc] = append(states[en.Loc], en.MD.Hash+" "+en.MD.Length)
		}
	}
	return states
}

// TestEveryPushedStateIsPacked: a file is pushed many times between two publications,
// and while they run.
func TestEveryPushedStateIsPacked(t *testing.T) {
	w := dumped(t)
	w.o.Now, w.o.RebaseMin = time.Now, time.Hour
	w.set.ChangeListMax = 40
	w.fill(30)
	s := w.open()
	w.publish(s, What{})
	ended := make(chan int)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if _, err := s.Publish(t.Context(), What{NoScan: true}); err != nil {
				t.Errorf("Publish: %v", err)
			}
		}
		ended <- n
	}()
	want := map[string][]string{}
	for i := range 300 {
		name := fmt.Sprintf("room %d/item.txt", i%3)
		text := fmt.Sprint("state ", i)
		w.write(name, text)
		w.push(s, name)
		uri := scan.URI(base, name)
		want[uri] = append(want[uri], describe([]byte(text)))
	}
	stop()
	if n := <-ended; n < 3 {
		t.Errorf("only %d publications meanwhile", n)
	}
	w.publish(s, What{NoScan: true})
	w.checkDumps()
	if diff := cmp.Diff(want, w.packed()); diff != "" {
		t.Errorf("states (-pushed +packed):\n%s", diff)
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("still kept: %q", kept)
	}
}

// TestBytesStayBetweenLookingAndRecording: publications come between.
func TestBytesStayBetweenLookingAndRecording(t *testing.T) {
	w := dumped(t)
	w.fill(30)
	s := w.open()
	w.publish(s, What{})
	const name = "room 0/item.txt"
	w.write(name, "seen")
	seen, release, err := s.Look(t.Context(), "", name)
	if err != nil {
		t.Fatal(err)
	}
	w.write(name, "seen in vain")
	_, vain, err := s.Look(t.Context(), "", name)
	if err != nil {
		t.Fatal(err)
	}
	vain()
	w.write("room 1/item.txt", "something else")
	w.push(s, "room 1/item.txt")
	w.publish(s, What{NoScan: true})
	if kept := w.kept(); len(kept) != 1 {
		t.Errorf("kept are %q, want what was seen and is not recorded yet", kept)
	}
	w.record(s, catalog.Change{Resource: seen})
	release()
	w.push(s, name)
	w.publish(s, What{NoScan: true})
	want := []string{describe([]byte("seen")), describe([]byte("seen in vain"))}
	if diff := cmp.Diff(want, w.packed()[scan.URI(base, name)]); diff != "" {
		t.Errorf("states (-want +packed):\n%s", diff)
	}
	w.checkDumps()
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("still kept: %q", kept)
	}
}

// TestDumpsRefuseAChangeWithoutBytes: nothing of the call is recorded.
func TestDumpsRefuseAChangeWithoutBytes(t *testing.T) {
	w := dumped(t)
	w.fill(3)
	s := w.open()
	w.publish(s, What{})
	err := s.Record(t.Context(), "", []catalog.Change{change(scan.URI(base, "room 0/item.txt"), resourcesync.Deleted, ""), change(base+"nowhere", "", "1")})
	if !errors.Is(err, ErrNoBytes) {
		t.Errorf("Record: got %v, want ErrNoBytes", err)
	}
	for _, test := range []struct {
		told catalog.Resource
		want string
	}{
		{change(base+"nowhere", "", "1").Resource, "nowhere"},
		{change("https://example.org/", "", "1").Resource, "consists of the files"},
		{change(base+"room%201/item.txt", "", "item 2").Resource, "hash: file"},
		{change(base+"room%201/item.txt", "", "longer than that").Resource, "the change states 16"},
	} {
		if _, release, err := s.Accept(t.Context(), "", test.told); err == nil || release != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Accept of %s: got %v, want an error with %q", test.told.URI, err, test.want)
		}
	}
	if rep := w.publish(s, What{NoScan: true}); rep.Published || len(w.kept()) != 0 {
		t.Errorf("got %+v and %q kept, want nothing recorded", rep, w.kept())
	}
}

// TestToldFileIsPacked: what is told of it is published, its bytes are those of the file.
func TestToldFileIsPacked(t *testing.T) {
	w := dumped(t)
	w.fill(30)
	s := w.open()
	w.publish(s, What{})
	w.write("room 1/item.txt", "told")
	told := change(base+"room%201/item.txt", "", "told").Resource
	told.Type = "text/x-item"
	r, release, err := s.Accept(t.Context(), "", told)
	if err != nil {
		t.Fatal(err)
	}
	w.record(s, catalog.Change{Resource: r})
	release()
	w.publish(s, What{NoScan: true})
	w.checkDumps()
	if rep := w.publish(s, What{}); rep.Updated != 0 || r.Type != "text/x-item" {
		t.Errorf("a scan then: %+v, type %q; want nothing changed", rep, r.Type)
	}
}

// shelf is an Input that can open its resources.
type shelf struct {
	scan.Input
	bytes map[string]string
}

func (s shelf) Open(_ context.Context, r catalog.Resource) (io.ReadCloser, error) {
	text, ok := s.bytes[r.URI]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// TestToldResourcesOfOtherInputsArePacked: as far as the Input can open them.
func TestToldResourcesOfOtherInputsArePacked(t *testing.T) {
	w := dumped(t)
	w.o.Dir = ""
	on := shelf{bytes: map[string]string{}}
	w.set.Input = func(d scan.Deps) (scan.Input, error) {
		on.Input = &scan.List{Deps: d}
		return on, nil
	}
	s := w.open()
	w.publish(s, What{NoScan: true})
	want := map[string][]string{}
	for i := range 3 {
		on.bytes[base+"a"] = fmt.Sprint("state ", i)
		want[base+"a"] = append(want[base+"a"], describe([]byte(on.bytes[base+"a"])))
		r, release, err := s.Accept(t.Context(), "", catalog.Resource{URI: base + "a"})
		if err != nil {
			t.Fatal(err)
		}
		w.record(s, catalog.Change{Resource: r})
		release()
	}
	if _, _, err := s.Accept(t.Context(), "", catalog.Resource{URI: base + "b"}); !errors.Is(err, ErrNoBytes) {
		t.Errorf("without bytes: got %v, want ErrNoBytes", err)
	}
	clear(on.bytes)
	maps.Copy(on.bytes, map[string]string{base + "a": "what nobody recorded"})
	w.publish(s, What{NoScan: true})
	if diff := cmp.Diff(want, w.packed()); diff != "" {
		t.Errorf("states (-told +packed):\n%s", diff)
	}
}
