package mirror

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
)

// The batch that is interrupted in these tests does everything a batch can do.
var (
	before = map[string]string{"same": "same", "replaced": "old", "d/deleted": "deleted", "d/kept": "kept", "due": "damaged"}
	after  = map[string]string{"same": "same", "replaced": "new", "d/kept": "kept", "due": "repaired", "n/new": "n", "N/other": "N", "came": "came"}
)

func fillBefore(b destination.Batch) error {
	if err := putAll(b, before); err != nil {
		return err
	}
	return b.Due(context.Background(), set, wantedOfBody(home+"/came", "came", noon), "not found")
}

func fillAfter(b destination.Batch) error {
	later := noon.AddDate(0, 0, 1)
	for name, body := range map[string]string{"replaced": "new", "due": "repaired", "n/new": "n", "N/other": "N", "came": "came"} {
		if err := put(b, set, name, body, later); err != nil {
			return err
		}
	}
	ctx := context.Background()
	return errors.Join(
		b.Mark(ctx, set, wantedOfBody(home+"/same", "same", later)),
		b.Due(ctx, set, wantedOfBody(home+"/never", "never", later), "not found"),
		b.Delete(ctx, set, home+"/d/deleted", time.Time{}),
	)
}

var storyMove = &destination.CursorMove{Set: set, Cursor: destination.Cursor{Position: harvest.Position{At: noon, Applied: 7}}}

// state is all that a mirror tells of itself, and its files.
type state struct {
	Held   map[string]string
	Cursor int
	Files  map[string]string
}

func stateOf(t *testing.T, m *Mirror) state {
	t.Helper()
	ctx := context.Background()
	s := state{Held: map[string]string{}, Files: filesIn(t, m.o.Dir, isOurs)}
	for h, err := range m.Members(ctx, set) {
		if err != nil {
			t.Fatal(err)
		}
		s.Held[h.Path] = fmt.Sprint(h.Stored, h.Verified, h.Length.Int64(), h.Digests, h.Changed, h.Due)
		if h.Stored != (s.Files[h.Path] != "") {
			t.Errorf("%s: stored is %v, its file holds %q", h.URI, h.Stored, s.Files[h.Path])
		}
	}
	cursor, _, err := m.Cursor(ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	s.Cursor = cursor.Applied
	return s
}

// wantStates returns the states before and after the batch.
func wantStates(t *testing.T) (first, last state) {
	t.Helper()
	m := openMirror(t, options(t.TempDir()))
	commit(t, m, fillBefore)
	first = stateOf(t, m)
	if err := tryCommit(m, storyMove, fillAfter); err != nil {
		t.Fatal(err)
	}
	last = stateOf(t, m)
	if diff := cmp.Diff(after, last.Files); diff != "" {
		t.Fatalf("files after the batch (-want +got):\n%s", diff)
	}
	return first, last
}

// fault is a way in which a batch is interrupted.
type fault struct {
	name string
	plan blobtest.Plan // of the bucket, once the batch began
	sql  string        // a trigger of the catalog
	dead bool          // nothing works any more after the fault: a crash
}

func faults() []fault {
	var all []fault
	for _, dead := range []bool{false, true} {
		for steps := range 8 {
			all = append(all, fault{name: fmt.Sprint("commit after ", steps, " steps"), plan: at(blobtest.OpCommit, steps, dead), dead: dead})
		}
		all = append(all,
			fault{name: "commit whose answer is lost", plan: at(blobtest.OpCommit, blobtest.All, dead), dead: dead},
			fault{name: "create", plan: at(blobtest.OpCreate, 0, dead), dead: dead},
			fault{name: "write", plan: at(blobtest.OpWrite, 1, dead), dead: dead},
			fault{name: "close", plan: at(blobtest.OpClose, 0, dead), dead: dead},
			fault{name: "intents", sql: "CREATE TRIGGER fault BEFORE INSERT ON intent BEGIN SELECT RAISE(ABORT, 'injected'); END", dead: dead},
			fault{name: "resources", sql: "CREATE TRIGGER fault BEFORE INSERT ON resource BEGIN SELECT RAISE(ABORT, 'injected'); END", dead: dead},
			fault{name: "outcome", sql: "CREATE TRIGGER fault BEFORE DELETE ON intent BEGIN SELECT RAISE(ABORT, 'injected'); END", dead: dead},
			fault{name: "members", sql: "CREATE TRIGGER fault BEFORE INSERT ON member BEGIN SELECT RAISE(ABORT, 'injected'); END", dead: dead},
			fault{name: "cursor", sql: "CREATE TRIGGER fault BEFORE INSERT ON cursor BEGIN SELECT RAISE(ABORT, 'injected'); END", dead: dead},
		)
	}
	return all
}

// at is a plan in which the first call of op fails, and after a crash every call.
func at(op blobtest.Op, steps int, dead bool) blobtest.Plan {
	failed := false
	return func(c blobtest.Call) *blobtest.Fault {
		if failed {
			if dead {
				return &blobtest.Fault{}
			}
			return nil
		}
		if c.Op != op {
			return nil
		}
		failed = true
		return &blobtest.Fault{Steps: steps}
	}
}

// A batch that is interrupted anywhere has not happened, and can be done again.
func TestABatchHappensWholeOrNotAtAll(t *testing.T) {
	first, last := wantStates(t)
	for _, f := range faults() {
		name := f.name
		if f.dead {
			name += ", then a crash"
		}
		t.Run(name, func(t *testing.T) { interrupt(t, f, first, last) })
	}
}

func interrupt(t *testing.T, f fault, first, last state) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	commit(t, m, fillBefore)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	o, arm := faulty(options(dir), f)
	m = openMirror(t, o)
	trigger(t, dir, f.sql)
	arm()
	if err := tryCommit(m, storyMove, fillAfter); err == nil {
		t.Fatal("the batch was committed in spite of the fault")
	}
	if f.sql != "" && !f.dead {
		trigger(t, dir, "DROP TRIGGER fault")
		if err := m.undoLeftovers(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if !f.dead {
		compare(t, "in the same run", first, stateOf(t, m))
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if f.sql != "" && f.dead {
		trigger(t, dir, "DROP TRIGGER fault")
	}
	m = openMirror(t, options(dir))
	compare(t, "in the next run", first, stateOf(t, m))
	if left := filesIn(t, dir, func(path string) bool { return !strings.HasPrefix(path, tempKey) }); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
	if err := tryCommit(m, storyMove, fillAfter); err != nil {
		t.Fatal(err)
	}
	compare(t, "done again", last, stateOf(t, m))
}

// faulty lets the files of a mirror fail as f says, once they are armed.
func faulty(o Options, f fault) (_ Options, arm func()) {
	armed := false
	o.bucket = func(b blob.Bucket) blob.Bucket {
		return blobtest.Faulty(b, func(c blobtest.Call) *blobtest.Fault {
			if !armed || f.plan == nil {
				return nil
			}
			return f.plan(c)
		})
	}
	return o, func() { armed = true }
}

func compare(t *testing.T, when string, want, got state) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// trigger changes the catalog behind the back of who has it open.
func trigger(t *testing.T, dir, statement string) {
	t.Helper()
	if statement == "" {
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, ours, catName))+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// What stands in the way of a new file after a crash may be somebody else's: it is
// removed only if it has the very bytes that were on their way.
func TestUndoingRemovesNobodyElsesFile(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	if err := intend(m, wantedOfBody(home+"/a", "mine", noon)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a", "theirs")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, options(dir))
	wantFiles(t, dir, map[string]string{"a": "theirs"})
	err := tryCommit(m, nil, func(b destination.Batch) error { return put(b, set, "a", "mine", noon) })
	if !errors.Is(err, destination.ErrOccupied) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("got %v, want ErrOccupied and the path", err)
	}
}

// intend leaves an intent behind, as a crash right after it would.
func intend(m *Mirror, w harvest.Resource) error {
	in := catalog.Intent{URI: w.URI, Length: w.Length, SHA256: w.Digests[0]}
	return m.own.Intend(context.Background(), []catalog.Intent{in}, &catalog.Outcome{}, placeOf(m))
}

// placeOf finds places, whatever stands there.
func placeOf(m *Mirror) func(uri string, names catalog.Names) (catalog.Place, error) {
	return func(uri string, names catalog.Names) (catalog.Place, error) {
		segments, err := m.segments(uri)
		if err != nil {
			return catalog.Place{}, err
		}
		return (&placer{names: names, rules: m.names, blocked: vacant}).put(segments)
	}
}

func write(t *testing.T, dir, path, body string) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(body), 0o640)); err != nil {
		t.Fatal(err)
	}
}

// Bytes that are nowhere after a crash are fetched again.
func TestBytesLostInACrashAreDue(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	h := lookup(t, m, set, "a")
	in := catalog.Intent{URI: h.URI, Path: h.Path, Kept: trashKey + "/2026-05-01/1/a", Length: h.Length, SHA256: h.Digests[0]}
	if err := m.own.Intend(t.Context(), []catalog.Intent{in}, &catalog.Outcome{}, nil); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a", "torn by somebody")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openMirror(t, options(dir))
	h = lookup(t, m, set, "a")
	if h.Due == "" || h.Wanted.URI != home+"/a" || h.Wanted.Digests[0] != h.Digests[0] {
		t.Errorf("held: %+v", h)
	}
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	if h := lookup(t, m, set, "a"); h.Due != "" {
		t.Errorf("held after the repair: %+v", h)
	}
	wantFiles(t, dir, map[string]string{"a": "one"})
}
