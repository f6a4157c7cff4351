package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/publish"
)

// rounds records what a loop publishes, with the time since it began.
type rounds struct {
	begin time.Time
	list  []string
	fail  error
	takes time.Duration
}

func (r *rounds) publish(ctx context.Context, what publish.What) error {
	slices.Sort(what.Paths)
	text := fmt.Sprint(what.Paths)
	if what.Paths == nil {
		text = "everything"
	}
	if len(what.Paths) > 5 {
		text = fmt.Sprint(len(what.Paths), " paths")
	}
	r.list = append(r.list, fmt.Sprintf("%s: %s", time.Since(r.begin), text))
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.fail
}

// step is a change that comes some time after the one before it.
type step struct {
	after time.Duration
	change
}

// play runs a loop in a bubble of its own time, for an hour and a half of it.
func play(t *testing.T, r *rounds, every time.Duration, steps []step) (failures []error) {
	synctest.Test(t, func(t *testing.T) {
		r.begin = time.Now()
		changes := make(chan change)
		ctx, cancel := context.WithCancel(t.Context())
		l := &loop{now: time.Now, changes: changes, every: every, rescan: time.Hour, publish: r.publish, warn: func(err error) { failures = append(failures, err) }}
		done := make(chan error, 1)
		go func() { done <- l.run(ctx) }()
		for _, s := range steps {
			time.Sleep(s.after) // of the bubble: it takes no time
			changes <- s.change
		}
		time.Sleep(time.Until(r.begin.Add(89 * time.Minute)))
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v, want nothing when it is told to stop", err)
		}
	})
	return failures
}

func TestBurstsAreOnePublicationAndPublicationsApart(t *testing.T) {
	var burst, flood []step
	for i := range 10 {
		burst = append(burst, step{10 * time.Millisecond, change{path: "a"}}, step{0, change{path: fmt.Sprint("b", i%3)}})
	}
	for i := range maxPaths + 10 {
		flood = append(flood, step{0, change{path: fmt.Sprint(i)}})
	}
	late := []step{{10 * time.Second, change{path: "x"}}, {time.Second, change{path: "y"}}, {time.Second, change{path: "z"}}}
	for name, c := range map[string]struct {
		steps []step
		want  []string
	}{
		"nothing":                 {nil, []string{"0s: everything", "1h0m0.2s: everything"}},
		"a burst":                 {burst, []string{"0s: everything", "5s: [a b0 b1 b2]", "1h0m0.2s: everything"}},
		"one after rest":          {late, []string{"0s: everything", "10.2s: [x]", "15.2s: [y z]", "1h0m0.2s: everything"}},
		"more than is remembered": {flood, []string{"0s: everything", "5s: everything", "1h0m0.2s: everything"}},
		"what the system lost":    {[]step{{time.Minute, change{path: "x"}}, {0, change{everything: true}}}, []string{"0s: everything", "1m0.2s: everything", "1h0m0.2s: everything"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rounds{}
			play(t, r, 5*time.Second, c.steps)
			if diff := cmp.Diff(r.list, c.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestFailedPublicationIsTriedAgainWithEverything(t *testing.T) {
	r := &rounds{}
	var failures []error
	synctest.Test(t, func(t *testing.T) {
		r.begin = time.Now()
		changes := make(chan change)
		ctx, cancel := context.WithCancel(t.Context())
		l := &loop{now: time.Now, changes: changes, every: time.Second, rescan: time.Hour, publish: r.publish, warn: func(err error) { failures = append(failures, err) }}
		done := make(chan error, 1)
		go func() { done <- l.run(ctx) }()
		synctest.Wait()
		r.fail = errors.New("the disk is full")
		changes <- change{path: "x"}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		r.fail = nil
		changes <- change{path: "y"} // does not hurry it
		time.Sleep(5 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	want := []string{"0s: everything", "1s: [x]", "1m1s: everything"}
	if diff := cmp.Diff(r.list, want); diff != "" || len(failures) != 1 {
		t.Errorf("%v (-got +want):\n%s", failures, diff)
	}
}

func TestFirstPublicationThatFailsEndsWatching(t *testing.T) {
	refused := errors.New("refused")
	l := &loop{now: time.Now, every: time.Second, rescan: time.Hour, publish: func(context.Context, publish.What) error { return refused }}
	if err := l.run(t.Context()); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestWatchingStopsInTheMiddleOfAPublication(t *testing.T) {
	r := &rounds{takes: 2 * time.Hour}
	play(t, r, time.Second, nil)
	if diff := cmp.Diff(r.list, []string{"0s: everything"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// listener hears what a tree tells. One change is often told several times.
type listener struct {
	*tree
	heard map[string]bool
}

// told waits for the changes of exactly these paths, in any order.
func (l *listener) told(t *testing.T, want ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, path := range want {
		missing[path] = true
	}
	deadline := time.After(2 * time.Minute)
	for len(missing) > 0 {
		select {
		case c, ok := <-l.changes:
			if !ok || c.everything || !slices.Contains(want, c.path) && !l.heard[c.path] {
				t.Fatalf("told of %+v (%v), want %v", c, ok, want)
			}
			delete(missing, c.path)
			l.heard[c.path] = true
		case <-deadline:
			t.Fatalf("never told of %v", missing)
		}
	}
}

func TestTreeTellsWhatChanges(t *testing.T) {
	dir := t.TempDir()
	write := func(path string) {
		t.Helper()
		name := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sub/old.txt")
	write("documents/resourcesync/capabilitylist.xml")
	tr := watchTree(t.Context(), dir, filepath.Join(dir, "documents"), func(err error) { t.Error(err) })
	defer tr.close()
	l := &listener{tr, map[string]bool{}}

	// None of these is told of, or the next one would not be the first.
	write(".hidden")
	write(".git/config")
	write("documents/resourcesync/capabilitylist.xml")
	write("resourcesync/changes/1.xml")
	write("sitemap.xml")
	write("sub/old.txt")
	l.told(t, "sub/old.txt")

	if err := os.Rename(filepath.Join(dir, "sub/old.txt"), filepath.Join(dir, "new.txt")); err != nil {
		t.Fatal(err)
	}
	l.told(t, "new.txt")
	if err := os.Mkdir(filepath.Join(dir, "fresh"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.told(t, "fresh")
	write("fresh/one.txt")
	l.told(t, "fresh/one.txt")
	if err := os.RemoveAll(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	l.told(t, "sub")
}

func TestDirectoryThatWasMovedIsStillWatched(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	tr := watchTree(t.Context(), dir, "", func(err error) { t.Error(err) })
	defer tr.close()
	l := &listener{tr, map[string]bool{}}
	for _, to := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
		if err := os.Rename(filepath.Join(dir, to[0]), filepath.Join(dir, to[1])); err != nil {
			t.Fatal(err)
		}
		for c := range tr.changes {
			if c.everything {
				break
			}
		}
		for _, in := range []string{"x", "deep/x"} {
			path := to[1] + "/" + in
			if err := os.WriteFile(filepath.Join(dir, path), []byte(to[0]), 0o644); err != nil {
				t.Fatal(err)
			}
			l.told(t, path)
		}
	}
}

func TestDirectoryItselfMovedAwaySaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	warned := make(chan error, 1)
	tr := watchTree(t.Context(), dir, "", func(err error) { warned <- err })
	defer tr.close()
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if c := <-tr.changes; !c.everything {
		t.Errorf("told of %+v", c)
	}
	if we := (*LateError)(nil); !errors.As(<-warned, &we) {
		t.Error("no warning that changes are seen late")
	}
}

func TestTreeThatCannotBeWatchedSaysSo(t *testing.T) {
	var warned error
	tr := watchTree(t.Context(), filepath.Join(t.TempDir(), "absent"), "", func(err error) { warned = err })
	defer tr.close()
	if _, ok := <-tr.changes; ok {
		t.Error("told of a change")
	}
	if we := (*LateError)(nil); !errors.As(warned, &we) {
		t.Errorf("warned of %v", warned)
	}
}

// nothing publishes nothing.
type nothing struct{}

// Publish implements Session.
func (nothing) Publish(context.Context, publish.What) (publish.Report, error) {
	return publish.Report{}, nil
}

func TestReportAndWarnAreNotCalledBesideEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	warned := make(chan struct{})
	first := true
	err := Run(ctx, nothing{}, Options{Dir: dir, Every: time.Hour, Rescan: time.Hour, Now: time.Now,
		Report: func(*publish.Report) {
			if !first {
				return
			}
			first = false
			if err := os.Rename(dir, dir+"-away"); err != nil {
				t.Error(err)
			}
			select {
			case <-warned:
				t.Error("Warn was called while Report was")
			case <-time.After(time.Second):
			}
		},
		Warn: func(error) { close(warned); cancel() },
	})
	if err != nil {
		t.Error(err)
	}
}
