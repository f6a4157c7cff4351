package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"instep/internal/catalog"
	"instep/internal/publish"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const base = "https://example.org/"

// world is a site and a Recorder of its set.
type world struct {
	*Recorder
	t       testing.TB
	dir     string
	site    publish.Site
	session *publish.Session

	mu        sync.Mutex
	published []error
}

// newWorld is of a set that is what is told of it.
func newWorld(t testing.TB) *world { return openWorld(t, false) }

// withFiles is of a set that is made of files.
func withFiles(t testing.TB) *world { return openWorld(t, true) }

func openWorld(t testing.TB, files bool) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.site = publish.Site{Out: w.dir, State: filepath.Join(t.TempDir(), "state"), BaseURL: base, Sets: []publish.Set{{}}, Now: time.Now, RebaseMin: time.Hour}
	if files {
		w.site.Dir, w.site.Out = w.dir, ""
	}
	w.open()
	t.Cleanup(func() {
		if err := w.session.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := publish.Open(context.WithoutCancel(w.t.Context()), w.site)
	if err != nil {
		w.t.Fatal(err)
	}
	w.session = s
	w.Recorder = &Recorder{Session: s, Every: 10 * time.Millisecond, Now: time.Now, Published: func(_ publish.Report, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.published = append(w.published, err)
	}}
}

// push runs the recorder over lines and returns what was answered.
func (w *world) push(lines ...string) []Answer {
	w.t.Helper()
	var got []Answer
	err := w.Run(w.t.Context(), func(ctx context.Context) error {
		return w.Read(ctx, strings.NewReader(strings.Join(lines, "\n")), func(a Answer) { got = append(got, a) })
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// changeLists is the text of all Change Lists.
func (w *world) changeLists() string {
	w.t.Helper()
	names, err := filepath.Glob(filepath.Join(w.dir, "resourcesync/changes/*.xml"))
	if err != nil {
		w.t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			w.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("%s (-got +want):\n%s", what, d)
	}
}

const sum1 = "sha-256:0000000000000000000000000000000000000000000000000000000000000001"

func TestLinesAreRecordedAnsweredAndPublished(t *testing.T) {
	w := newWorld(t)
	w.push(`{"uri":"https://example.org/first"}`) // the first publication lists no changes
	got := w.push(
		`{"uri":"https://example.org/a","hash":"`+sum1+`","length":3,"type":"text/plain","lastmod":"2024-05-01"}`,
		``,
		`{"uri":"https://example.org/a","hash":"`+sum1+`"}`,
		`{"uri":"https://example.org/a","hash":"`+strings.TrimSuffix(sum1, "1")+`"}`,
		`{"uri":"https://example.org/a","change":"deleted"}`,
		`{"uri":"https://example.org/a","change":"deleted"}`,
		`{"uri":"https://example.org/b","change":"updated"}`,
		`{"uri":"https://example.org/b","change":"created"}`,
	)
	uri := func(n int, name, change string) Answer {
		return Answer{Line: n, OK: true, URI: base + name, Change: change}
	}
	same(t, "answers", got[:2], []Answer{uri(1, "a", "created"), uri(3, "a", "unchanged")})
	if got[2].OK || got[2].Line != 4 || got[2].Error == "" {
		t.Errorf("answer to a digest that is none: %+v", got[2])
	}
	same(t, "answers", got[3:], []Answer{uri(5, "a", "deleted"), uri(6, "a", "unchanged"), uri(7, "b", "created"), uri(8, "b", "updated")})
	list := w.changeLists()
	for _, part := range []string{`change="created"`, `change="deleted"`, sum1, `length="3"`, `type="text/plain"`} {
		if !strings.Contains(list, part) {
			t.Errorf("the Change List has no %s:\n%s", part, list)
		}
	}
}

// A wrong line is told by its number and does not stop the others.
func TestWrongLines(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct{ line, want string }{
		{`{`, "expected a JSON object"},
		{`[1]`, "expected a JSON object with \"uri\" or \"path\", found array"},
		{`{"uri":5}`, "uri: found a JSON number, expected a value of another type"},
		{`{"uri":"https://example.org/a"} {}`, "one JSON object in each line"},
		{`{"uri":"https://example.org/a","colour":"red"}`, `"colour"`},
		{`{}`, "either \"uri\" or \"path\""},
		{`{"uri":"https://example.org/a","path":"a"}`, "either \"uri\" or \"path\""},
		{`{"uri":"https://example.org/a","change":"moved"}`, `"moved"`},
		{`{"uri":"https://example.org/a","length":-1}`, "length"},
		{`{"uri":"https://example.org/a","lastmod":"soon"}`, "soon"},
		{`{"uri":"https://example.org/a","type":"a b"}`, "type"},
		{`{"uri":"file:///etc/passwd"}`, "http"},
		{`{"uri":"/a"}`, "http"},
		{`{"path":"a"}`, "expected a uri"},
		{`{"uri":"https://example.org/` + strings.Repeat("a", MaxLine) + `"}`, "at most"},
	} {
		w.refuses(test.line, test.want, `{"uri":"https://example.org/good"}`)
	}
}

// refuses pushes a line that is refused and one that is good.
func (w *world) refuses(line, want, good string) {
	w.t.Helper()
	got := w.push(line, good)
	if len(got) != 2 || got[0].OK || !strings.Contains(got[0].Error, want) || got[0].Line != 1 {
		w.t.Errorf("%.60s: answers %+v, want an error with %q", line, got, want)
		return
	}
	if !got[1].OK || got[1].Line != 2 {
		w.t.Errorf("%.60s: the next line is answered %+v", line, got[1])
	}
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// A set that is made of files takes nothing else: the next scan would delete it.
func TestWrongLinesOfFiles(t *testing.T) {
	w := withFiles(t)
	w.write(".hidden", "x")
	w.write("good", "x")
	for _, test := range []struct{ line, want string }{
		{`{"path":"../a"}`, "below the directory"},
		{`{"path":"/etc/passwd"}`, "below the directory"},
		{`{"path":".hidden","change":"updated"}`, ".hidden"},
		{`{"path":"none","change":"updated"}`, "none"},
		{`{"path":"a","length":3}`, "only \"path\" and \"change\""},
		{`{"uri":"https://example.com/good"}`, "below https://example.org/"},
		{`{"uri":"https://example.org/good?page=2"}`, "below https://example.org/"},
		{`{"uri":"https://example.org/none"}`, "the next scan would delete this"},
		{`{"uri":"https://example.org/.hidden"}`, "not published"},
		{`{"uri":"https://example.org/resourcesync/capabilitylist.xml"}`, "not published"},
	} {
		w.refuses(test.line, test.want, `{"uri":"https://example.org/good"}`)
	}
	if rep, err := w.session.Publish(t.Context(), publish.What{}); err != nil || rep.Deleted != 0 || rep.Resources != 1 {
		t.Errorf("a scan then: %+v, %v; want the one file", rep.SetReport, err)
	}
}

func TestFilesAreReadWhenTheyAreNamed(t *testing.T) {
	w := withFiles(t)
	name := filepath.Join(w.dir, "a b.txt")
	w.write("a b.txt", "one")
	const line = `{"path":"a b.txt"}`
	uri := base + "a%20b.txt"
	same(t, "answers", w.push(line, line), []Answer{{Line: 1, OK: true, URI: uri, Change: "created"}, {Line: 2, OK: true, URI: uri, Change: "unchanged"}})
	rep, err := w.session.Publish(t.Context(), publish.What{})
	if err != nil || rep.Created+rep.Updated+rep.Deleted != 0 || rep.Unchanged != 1 {
		t.Errorf("a scan finds %+v, %v; want the file as it was recorded", rep.SetReport, err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	same(t, "answers", w.push(line), []Answer{{Line: 1, OK: true, URI: uri, Change: "deleted"}})
}

// Applications push over several connections at once; each gets its own answers, in order.
func TestConnections(t *testing.T) {
	w := newWorld(t)
	const each, clients = 3000, 4
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx, func(ctx context.Context) error { return w.Serve(ctx, ln) }) }()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() { pushOver(t, ln.Addr().String(), c, each) })
	}
	all.Wait()
	stop()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want that it was cancelled", err)
	}
	rep, err := w.session.Publish(t.Context(), publish.What{NoScan: true})
	if err != nil || rep.Resources != each*clients || rep.Published {
		t.Errorf("%d resources, published again %t, %v; want %d, all published before", rep.Resources, rep.Published, err, each*clients)
	}
}

func pushOver(t *testing.T, addr string, client, n int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	go func() {
		for i := range n {
			fmt.Fprintf(conn, "{\"uri\":\"https://example.org/%d/%d\"}\n", client, i)
		}
	}()
	answers := json.NewDecoder(bufio.NewReader(conn))
	for i := range n {
		var a Answer
		err := answers.Decode(&a)
		if want := (Answer{Line: i + 1, OK: true, URI: fmt.Sprintf("https://example.org/%d/%d", client, i), Change: "created"}); err != nil || a != want {
			t.Errorf("answer %+v, %v; want %+v", a, err, want)
			return
		}
	}
}

// broken is a session that can't record any more.
type broken struct {
	Session
	after int
}

var errDisk = errors.New("no space left")

func (b *broken) Record(ctx context.Context, set string, changes []catalog.Change) error {
	if b.after--; b.after < 0 {
		return errDisk
	}
	return b.Session.Record(ctx, set, changes)
}

func TestWhatIsNotRecordedIsNotAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.Session = &broken{w.session, 1}
	var text strings.Builder
	for i := range 3 * queueSize {
		fmt.Fprintf(&text, "{\"uri\":\"https://example.org/%d\"}\n", i)
	}
	var good []string
	err := w.Run(t.Context(), func(ctx context.Context) error {
		return w.Read(ctx, strings.NewReader(text.String()), func(a Answer) {
			if a.OK {
				good = append(good, a.URI)
			}
		})
	})
	if !errors.Is(err, errDisk) {
		t.Errorf("Run = %v, want %v", err, errDisk)
	}
	for _, uri := range good {
		known, err := w.session.Known(t.Context(), "", []string{uri})
		if err != nil || !known[0].Member {
			t.Errorf("%s was acknowledged and is not recorded: %+v, %v", uri, known, err)
		}
	}
	if len(good) == 0 || len(good) > catalog.MaxChanges {
		t.Errorf("%d lines were acknowledged, want those of the first batch", len(good))
	}
}

// What ends while a client pushes: all that it was told of is published.
func TestTheEndPublishesWhatWasAcknowledged(t *testing.T) {
	w := newWorld(t)
	w.Every = time.Hour
	from, to := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	n := 0
	go func() {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(to, "{\"uri\":\"https://example.org/%d\"}\n", i); err != nil {
				return
			}
		}
	}()
	err := w.Run(ctx, func(ctx context.Context) error {
		return w.Read(ctx, from, func(a Answer) {
			if n++; n == 700 {
				stop()
			}
		})
	})
	from.Close()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want that it was cancelled", err)
	}
	rep, err := w.session.Publish(t.Context(), publish.What{NoScan: true})
	if err != nil || rep.Published || rep.Resources < int64(n) {
		t.Errorf("%d resources, published again %t, %v; want at least the %d acknowledged, all published before", rep.Resources, rep.Published, err, n)
	}
	same(t, "publications", w.published, []error{nil})
}
