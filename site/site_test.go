package site_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"instep/site"
)

func Example() {
	dir, err := os.MkdirTemp("", "collection")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "vase.txt"), []byte("a vase"), 0o600); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s, err := site.Open(ctx, site.Options{Dir: dir, State: filepath.Join(dir, ".state"), BaseURL: "https://museum.example.org/"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	report, err := s.Publish(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Created, "created")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/vase.txt", nil))
	fmt.Println(w.Body, w.Header().Get("Link"))
	// Output:
	// 1 created
	// a vase </resourcesync/capabilitylist.xml>; rel="resourcesync"
}

// collection is a directory with n files.
func collection(t *testing.T, n int) site.Options {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".txt")), []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return site.Options{Dir: dir, State: t.TempDir(), BaseURL: "https://museum.example.org/deep"}
}

func open(t *testing.T, o site.Options) *site.Site {
	t.Helper()
	s, err := site.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestOpenRefuses(t *testing.T) {
	o := collection(t, 1)
	open(t, o)
	if _, err := site.Open(t.Context(), o); !is[*site.LockedError](err) {
		t.Errorf("while it is open: got %v", err)
	}
	other := collection(t, 1)
	other.BaseURL = "ftp://museum.example.org/"
	if _, err := site.Open(t.Context(), other); !is[*site.OptionError](err) {
		t.Errorf("no web address: got %v", err)
	}
	absent := collection(t, 1)
	absent.Dir = filepath.Join(absent.Dir, "absent")
	if _, err := site.Open(t.Context(), absent); !errors.Is(err, site.ErrRoot) {
		t.Errorf("no directory: got %v", err)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestPublishDeletesNothingInMass(t *testing.T) {
	o := collection(t, 20)
	s := open(t, o)
	if rep, err := s.Publish(t.Context()); err != nil || rep.Created != 20 || !rep.Published {
		t.Fatalf("%+v %v", rep, err)
	}
	for i := range 15 {
		if err := os.Remove(filepath.Join(o.Dir, fmt.Sprint(i, ".txt"))); err != nil {
			t.Fatal(err)
		}
	}
	if rep, err := s.Publish(t.Context()); !is[*site.GuardError](err) || rep.Deleted != 0 && rep.Published {
		t.Errorf("%+v %v", rep, err)
	}
}

// Documents may be apart from the resources; both are served below the path of the base URL.
func TestOut(t *testing.T) {
	o := collection(t, 1)
	o.Out, o.Dumps = t.TempDir(), true
	s := open(t, o)
	rep, err := s.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(rep.Documents), "resourcedump.xml") {
		t.Errorf("no dump in %v", rep.Documents)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "resourcesync")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("documents beside the resources: %v", err)
	}
	for _, path := range []string{"/deep/0.txt", "/deep/resourcesync/capabilitylist.xml", "/.well-known/resourcesync"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestWatchReportsAndEndsWithItsContext(t *testing.T) {
	o := collection(t, 1)
	reports := make(chan site.Report, 10)
	o.Every = time.Millisecond
	o.Observe = func(rep site.Report, err error) {
		if err != nil {
			t.Error(err)
		}
		reports <- rep
	}
	s := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Watch(ctx) }()
	if rep := <-reports; rep.Created != 1 {
		t.Errorf("first: %+v", rep)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "new.txt"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	for rep := range reports {
		if rep.Created == 1 {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
