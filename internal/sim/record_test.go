package sim

import (
	"fmt"
	"instep/evidence"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// record is everything that a Source had, and everything that its documents said to one
// mirror. All moments in it are right ones, whatever the clock of the Source showed.
type record struct {
	mu      sync.Mutex // guards the rest
	base    string
	sets    []string
	clock   *clock
	past    map[string][]version   // of each resource, by path, oldest first
	told    map[string][]statement // of each resource, in the order of the runs
	current *reading               // what this run is served; nil between runs
}

// version is a state of a resource, from a moment on.
type version struct {
	since time.Time
	sum   string // as present tells; "" if the resource is gone
}

// reading is what one run was served.
type reading struct {
	documents map[string]*reported // by path and query; of one that was served twice the last
	reaches   time.Time            // the latest moment that it was told of
	exit      int
}

// reported is what a document said.
type reported struct {
	set, kind string
	at        time.Time
	members   []string // of a list: the paths of its resources
	parts     []string // of an index, a dump or a page: what it is continued in
}

// statement is what a document said of one resource.
type statement struct {
	in      *reading
	path    string
	at      time.Time // when the change happened, or the moment of the list
	present bool
	list    bool // it is the word of a list
	skewed  bool // the clock of the Source was wrong then
	untold  bool // neither a time nor a position says when
	carried bool // it is the word of a Change Dump, which may be read for the bytes alone
}

func (st statement) String() string {
	word := "deleted"
	switch {
	case st.present && st.list:
		word = "listed"
	case st.present:
		word = "changed"
	case st.list:
		word = "not listed"
	}
	return fmt.Sprintf("%s %s at %s", st.path, word, st.at.Format("15:04:05.000000"))
}

// hear takes down what a document says.
func (r *record) hear(c *call, d *document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return // nobody's run
	}
	said := &reported{kind: d.kind, at: d.at, set: r.setOf(c.path)}
	moment := func(e entry) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, e.happened()) // we published it
		return t
	}
	byTime := func(a, b entry) int { return moment(a).Compare(moment(b)) }
	jumbled := !slices.IsSortedFunc(d.entries, byTime)
	noticed := !slices.IsSortedFunc(slices.DeleteFunc(slices.Clone(d.entries), func(e entry) bool { return !e.placed() }), byTime)
	for _, e := range d.entries {
		path := strings.TrimPrefix(e.loc(), r.base)
		_, resource := idOf(path)
		switch {
		case !resource:
			said.parts = append(said.parts, path)
		case e.happened() == "":
			said.members = append(said.members, path)
			r.state(statement{path: path, at: d.at, present: true, list: true})
		default:
			present := e.md().get("change") != "deleted"
			r.state(statement{path: path, at: moment(e), present: present, untold: jumbled && e.md().get("datetime") == "" && (!present || !noticed && !e.placed()), carried: d.kind == "changedump-manifest"})
		}
	}
	for i := range d.head {
		if d.head[i].get("rel") == "next" {
			said.parts = append(said.parts, strings.TrimPrefix(d.head[i].get("href"), r.base))
		}
	}
	name := strings.Replace(c.path, "-manifest.xml", ".zip", 1)
	if c.r.URL.RawQuery != "" {
		name += "?" + c.r.URL.RawQuery
	}
	r.current.documents[name] = said
}

// placed reports whether a change has a time that shows its place in its list: that of a deletion in
// lastmod may be of the version that is gone.
func (e entry) placed() bool {
	return e.md().get("datetime") != "" || find(e, "lastmod") != nil && e.md().get("change") != "deleted"
}

func (r *record) state(st statement) {
	st.skewed = !r.clock.shownAt(st.at).Equal(st.at)
	st.in = r.current
	r.told[st.path] = append(r.told[st.path], st)
	if st.at.After(r.current.reaches) {
		r.current.reaches = st.at
	}
}

func (r *record) setOf(path string) string {
	for _, name := range r.sets {
		if name != "" && strings.Contains(path, "/"+name+"/") {
			return name
		}
	}
	return r.sets[0]
}

// begin is the beginning of a run, end its end: what lists left out is stated then.
func (r *record) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &reading{documents: map[string]*reported{}}
}

func (r *record) end(exit int) *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.current
	now.exit = exit
	for _, l := range now.completeLists() {
		for path := range r.past {
			if id, _ := idOf(path); r.sets[int(id)%len(r.sets)] == l.set && !slices.Contains(l.members, path) {
				r.state(statement{path: path, at: l.at, list: true})
			}
		}
	}
	r.current = nil
	return now
}

// completeLists are the Resource Lists and Resource Dumps that were served with all their
// parts, all of one moment.
func (n *reading) completeLists() (all []*reported) {
	whole := []string{"resourcelist", "resourcelist-index", "resourcedump", "resourcedump-index"}
	part := map[string]bool{}
	for _, d := range n.documents {
		for _, p := range d.parts {
			part[p] = part[p] || slices.Contains(whole, d.kind)
		}
	}
	for name, d := range n.documents {
		if part[name] || !slices.Contains(whole, d.kind) {
			continue
		}
		l := &reported{set: d.set, kind: d.kind, at: d.at}
		if n.gather(l, d) {
			all = append(all, l)
		}
	}
	return all
}

func (n *reading) gather(l, d *reported) bool {
	l.members = append(l.members, d.members...)
	for _, p := range d.parts {
		part, ok := n.documents[p]
		if !ok || !part.at.Equal(l.at) || !n.gather(l, part) {
			return false
		}
	}
	return true
}

// about returns what was said of a resource in this run, in runs that ended with success
// and, up to the moment as of which this run says that the mirror is, in the others.
func (r *record) about(n *reading, path string, m *mirrored) (all []statement) {
	id, _ := idOf(path)
	asOf, followed := m.cursor[r.sets[int(id)%len(r.sets)]]
	for _, st := range r.told[path] {
		switch {
		case m.alone && st.in != n, st.carried && followed && st.at.After(asOf):
		case st.in == n || st.in.exit == 0 || !st.at.After(n.reaches) && !(followed && st.at.After(asOf)):
			all = append(all, st)
		}
	}
	return all
}

// newest returns the last of these statements; false if there is none, if two of one
// moment contradict each other, or if the clock of the Source was wrong at one of them.
func newest(all []statement) (last statement, ok bool) {
	for i, st := range all {
		if st.skewed || st.untold {
			return last, false
		}
		if i == 0 || st.at.After(last.at) {
			last, ok = st, true
		} else if st.at.Equal(last.at) && st.present != last.present {
			ok = false
		}
	}
	return last, ok
}

// stateAt returns what a resource was at a moment.
func (r *record) stateAt(path string, at time.Time) (v version) {
	for _, next := range r.past[path] {
		if next.since.After(at) {
			break
		}
		v = next
	}
	return v
}

// everHad reports whether these were the bytes of a resource at a moment from since on.
func (r *record) everHad(path, sum string, since time.Time) bool {
	past := r.past[path]
	for i, v := range past {
		if v.sum == sum && (i+1 == len(past) || past[i+1].since.After(since)) {
			return true
		}
	}
	return false
}

// A violation is a promise that was broken: the clause of checker, and how.
type violation struct{ clause, how string }

// The clauses of the promise. What a run was "told" is what the documents said that it was
// served, and what they said to earlier runs: all of it if that run ended with success, else
// up to the latest moment that this run was told of, because a run that reports success
// must not forget what failed before.
const (
	// Every file has bytes that its resource had. After success, it had them at the moment
	// of the newest statement of the resource or later. (Undecided as of which moment: as
	// below.)
	bytesOfAVersion = "a: bytes"
	// After success, a resource is here if and only if the newest statement says that it
	// exists. (Undecided: two statements of one moment that contradict each other; any, if
	// the clock of the Source was ever wrong, since its dates then hide what came when; a list
	// that lacks it, where lists lied. A resource that some document calls deleted may be asked
	// for: if it is gone by now it need not be here.)
	membersAsTold = "b: members as told"
	// After success, a resource is here if and only if it existed at the moment up to which
	// the cursor says that everything is applied, or a statement after it says so. (A change of
	// that very moment may still come: a package ends before its until.)
	// (Undecided: the clock was wrong, or lists lied.)
	membersAsOf = "b: members as of the cursor"
	// A file goes only if a document said that the resource was deleted, or a complete list
	// lacked it, after the moment from which on the resource had these bytes; and a list not
	// of a moment at which an earlier run, with success, was told that it exists. (Undecided: a
	// change of a resource of which something was told with a wrong date.)
	noDeletionWithoutEvidence = "c: deletion"
	// Once nothing changes and nothing is wrong, three runs end with success and equality.
	endsInStep = "d: in step"
	// A run changes no file that is kept.
	keptStays = "e: kept"
)

// moment is a mirror between two runs.
type mirrored struct {
	before, after map[string]string    // files, as present tells
	cursor        map[string]time.Time // by set
	wanted        func(path string) bool
	approved      bool // deletions were approved before the run
	honest        bool // no list ever lied
	alone         bool // only what this run was told counts
}

// check holds what a run made of a mirror against the record.
func (r *record) check(n *reading, m mirrored) (all []violation) {
	all = append(r.checkBytes(n, m), r.checkDeletions(n, m)...)
	if n.exit != 0 {
		return all
	}
	for _, path := range slices.Sorted(maps.Keys(r.past)) {
		if !m.wanted(path) {
			continue
		}
		_, here := m.after[path]
		told := r.about(n, path, &m)
		if !here && r.confirmedGone(path, told) {
			continue
		}
		if last, ok := newest(told); ok && r.clock.isRight() && (m.honest || last.present || !last.list) && last.present != here && !r.knewLater(path, here, last.at) {
			all = append(all, violation{membersAsTold, fmt.Sprintf("%s: here: %t, but: %s", path, here, last)})
		}
		if v := r.checkCursor(path, here, told, m); v != nil {
			all = append(all, *v)
		}
	}
	return all
}

// confirmedGone reports whether a request for a resource that some document called deleted says
// that it is gone now.
func (r *record) confirmedGone(path string, told []statement) bool {
	states := r.past[path]
	return states[len(states)-1].sum == "" && slices.ContainsFunc(told, func(st statement) bool { return !st.present && !st.list })
}

// knewLater reports whether any run, also one that failed or held something back, was told
// after a moment that a resource exists, or that it does not: what it applied of that stays.
func (r *record) knewLater(path string, exists bool, at time.Time) bool {
	return slices.ContainsFunc(r.told[path], func(st statement) bool { return st.at.After(at) && st.present == exists })
}

func (r *record) checkCursor(path string, here bool, told []statement, m mirrored) *violation {
	id, _ := idOf(path)
	at, followed := m.cursor[r.sets[int(id)%len(r.sets)]]
	if !followed || m.alone || !m.honest || !r.clock.isRight() {
		return nil
	}
	exists := r.stateAt(path, at).sum != ""
	if before := r.stateAt(path, at.Add(-1)).sum != ""; before == here {
		exists = here
	}
	if last, ok := newest(told); ok && last.at.After(at) {
		exists = last.present
	}
	if exists == here || r.knewLater(path, here, at) {
		return nil
	}
	return &violation{membersAsOf, fmt.Sprintf("%s: here: %t, but existing: %t as of the cursor, %s", path, here, exists, at.Format("15:04:05.000000"))}
}

func (r *record) checkBytes(n *reading, m mirrored) (all []violation) {
	for path, sum := range m.after {
		if !r.everHad(path, sum, time.Time{}) {
			all = append(all, violation{bytesOfAVersion, path + " never had these bytes"})
			continue
		}
		if n.exit != 0 || !m.wanted(path) || !r.clock.isRight() {
			continue
		}
		if last, ok := newest(r.about(n, path, &m)); ok && last.present && !r.everHad(path, sum, last.at) {
			all = append(all, violation{bytesOfAVersion, fmt.Sprintf("%s has bytes of before: %s", path, last)})
		}
	}
	return all
}

func (r *record) checkDeletions(n *reading, m mirrored) (all []violation) {
	for path, sum := range m.before {
		if _, here := m.after[path]; here || m.approved {
			continue
		}
		if !r.mayGo(n, path, sum) {
			all = append(all, violation{noDeletionWithoutEvidence, path + " was deleted; told: " + fmt.Sprint(r.told[path])})
		}
	}
	return all
}

// mayGo reports whether there is evidence that a resource with these bytes is gone: by the
// moments that the clock of the Source said, which are all that the mirror knows, or by the
// right ones.
func (r *record) mayGo(n *reading, path, sum string) bool {
	right := func(t time.Time) time.Time { return t }
	return r.mayGoBy(r.clock.shownAt, n, path, sum) || r.mayGoBy(right, n, path, sum)
}

func (r *record) mayGoBy(moment func(time.Time) time.Time, n *reading, path, sum string) bool {
	var since, confirmed time.Time
	skewed := false
	for _, v := range r.past[path] {
		if v.sum == sum {
			since = moment(v.since)
		}
	}
	for _, st := range r.told[path] {
		if st.in != n && st.in.exit == 0 && st.present && moment(st.at).After(confirmed) {
			confirmed = moment(st.at)
		}
		skewed = skewed || st.skewed
	}
	states := r.past[path]
	gone := states[len(states)-1].sum == "" // a request for it says so
	newest := time.Time{}                   // by which the resource is said to exist
	for _, st := range r.told[path] {
		if st.present {
			newest = evidence.Later(newest, st.at)
		}
	}
	return slices.ContainsFunc(r.told[path], func(st statement) bool {
		switch {
		case st.present:
			return false
		case st.skewed, st.untold, skewed && !st.list, gone && (!st.list || !r.clock.isRight()):
			return true
		case st.list:
			return st.at.After(since) && st.at.After(confirmed)
		case !newest.IsZero() && st.at.After(newest): // bytes that nothing describes may be later than all that was told: no document says so
			return true
		}
		return st.at.After(since)
	})
}
