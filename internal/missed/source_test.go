package missed_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/fetch"
	"instep/internal/missed"
	"instep/internal/publish"
	"instep/mirror"
	"instep/source"
)

// TestAMirrorHoldsAllThatItMissed: a Source of ours publishes 50 changes of a resource between
// two runs of a mirror, which then holds all 50 states, as it does if Change Dumps bring them.
func TestAMirrorHoldsAllThatItMissed(t *testing.T) {
	for _, dumps := range []bool{false, true} {
		if dumps && testing.Short() {
			continue
		}
		t.Run(map[bool]string{false: "Change Lists", true: "Change Dumps"}[dumps], func(t *testing.T) { missAndBring(t, dumps) })
	}
}

func missAndBring(t *testing.T, dumps bool) {
	dir, now := t.TempDir(), time.Now().Add(-time.Hour)
	server := httptest.NewUnstartedServer(nil)
	site := publish.Site{
		Dir: filepath.Join(dir, "site"), State: filepath.Join(dir, "state"), BaseURL: "http://" + server.Listener.Addr().String() + "/",
		Sets: []publish.Set{{KeepVersions: publish.KeepAll, Dumps: dumps}}, Now: func() time.Time { return now },
	}
	put := func(text string) {
		if err := os.WriteFile(filepath.Join(site.Dir, "one.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		now = now.Add(10 * time.Second)
		if _, err := publish.Run(t.Context(), site, publish.What{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(site.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put("first")
	files, err := publish.OpenFiles(site.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Root.Close()
	server.Config.Handler = source.NewHandler(source.HandlerOptions{Dirs: []fs.FS{files}, Report: func(err error) { t.Error(err) }})
	server.Start()
	defer server.Close()

	sync := func() missed.Report { return syncOnce(t, site.BaseURL, filepath.Join(dir, "mirror")) }
	if rep := sync(); rep.Fetched != 0 {
		t.Errorf("the first run fetched %d versions", rep.Fetched)
	}
	var want []string
	for i := range 51 { // the last one is the present state
		text := fmt.Sprintf("change %d", i)
		put(text)
		if i < 50 {
			want = append(want, text)
		}
	}
	if rep := sync(); rep.Fetched != 50 || rep.Failed != 0 {
		t.Errorf("fetched %d versions, failed %d: %v", rep.Fetched, rep.Failed, rep.Failures)
	}
	if diff := cmp.Diff(want, fetchedTexts(t, filepath.Join(dir, "mirror"), site.BaseURL+"one.txt")); diff != "" {
		t.Errorf("the mirror's versions (-want +got):\n%s", diff)
	}
	if rep := sync(); rep.Fetched != 0 || rep.Failed != 0 {
		t.Errorf("a third run fetched %d, failed %d", rep.Fetched, rep.Failed)
	}
}

// syncOnce brings a mirror in step, with the versions that it missed.
func syncOnce(t *testing.T, uri, dir string) (rep missed.Report) {
	t.Helper()
	m, err := mirror.Open(t.Context(), mirror.Options{Dir: dir, Now: time.Now, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	store, err := missed.Open(t.Context(), mirror.StateDir(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	host := uri[len("http://") : len(uri)-1]
	if _, _, err := net.SplitHostPort(host); err != nil {
		t.Fatal(err)
	}
	client, err := fetch.New(fetch.Options{AllowPrivate: []string{host}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	passed := missed.NewLog(t.TempDir())
	defer passed.Close()
	d := &destination.Destination{Source: uri, Mirror: m, Client: client, Passed: passed.Add}
	plan, err := d.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	if err := m.Bind(t.Context(), plan.Source, plan.Origin, plan.URIs()...); err != nil {
		t.Fatal(err)
	}
	b := &missed.Bringer{Client: client, Store: store.Store, Held: m.HoldsBytes}
	if err := b.Before(t.Context(), passed, &rep); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if err := b.After(t.Context(), passed, &rep); err != nil {
		t.Fatal(err)
	}
	return rep
}

// fetchedTexts are the bytes of the versions that a mirror holds of a resource.
func fetchedTexts(t *testing.T, dir, uri string) (texts []string) {
	t.Helper()
	store, err := missed.OpenReadOnly(t.Context(), mirror.StateDir(dir, ""))
	if err != nil || store == nil {
		t.Fatalf("no store of versions: %v", err)
	}
	defer store.Close()
	for v, err := range store.List(t.Context(), uri) {
		if err != nil {
			t.Fatal(err)
		}
		body, err := store.Open(t.Context(), v.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		text, err := readAll(body)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return texts
}

func readAll(body io.ReadCloser) (string, error) {
	text, err := io.ReadAll(body)
	return string(text), errors.Join(err, body.Close())
}
