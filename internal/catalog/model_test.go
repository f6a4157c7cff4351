package catalog

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"instep/resourcesync"
)

// model is what a catalog should hold.
type model struct {
	t       *testing.T
	catalog *Catalog
	now     time.Time
	sets    []SetID
	order   []string // URIs in the order in which their resources were first recorded
	bytes   map[string]Resource
	members map[SetID]map[string]Resource // only what belongs to the membership
	log     map[SetID][]Change
	last    time.Time
	seq     int64
}

func newModel(t *testing.T, c *Catalog) *model {
	m := &model{t: t, catalog: c, now: epoch, bytes: map[string]Resource{}, members: map[SetID]map[string]Resource{}, log: map[SetID][]Change{}}
	c.now = func() time.Time { return m.now }
	for _, name := range []string{"", "second"} {
		id := set(t, c, name)
		m.sets = append(m.sets, id)
		m.members[id] = map[string]Resource{}
	}
	return m
}

// apply returns whether a catalog has to take the change, and takes it.
func (m *model) apply(set SetID, ch Change) bool {
	_, member := m.members[set][ch.URI]
	if member != (ch.Change != resourcesync.Created) {
		return false
	}
	if ch.Change == resourcesync.Deleted {
		delete(m.members[set], ch.URI)
		if !slices.ContainsFunc(m.sets, func(s SetID) bool { _, ok := m.members[s][ch.URI]; return ok }) {
			delete(m.bytes, ch.URI)
			m.order = slices.DeleteFunc(m.order, func(u string) bool { return u == ch.URI })
		}
		return true
	}
	before, ok := m.bytes[ch.URI]
	if !ok {
		m.order = append(m.order, ch.URI)
	} else if before.Length != ch.Length || before.Digests.String() != ch.Digests.String() {
		m.tellOthers(set, ch.URI)
	}
	m.bytes[ch.URI] = ch.Resource
	m.members[set][ch.URI] = ch.Resource
	return true
}

// tellOthers marks a resource in the sets that have not recorded its change.
func (m *model) tellOthers(set SetID, uri string) {
	for s, members := range m.members {
		if r, ok := members[uri]; ok && s != set {
			r.Due = dueChanged
			members[uri] = r
		}
	}
}

// clone copies what apply changes, to go back to when a batch is refused.
func (m *model) clone() (order []string, bytes map[string]Resource, members map[SetID]map[string]Resource) {
	members = map[SetID]map[string]Resource{}
	for s, all := range m.members {
		members[s] = maps.Clone(all)
	}
	return slices.Clone(m.order), maps.Clone(m.bytes), members
}

func (m *model) record(rt *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.Int64Range(-5e9, 5e9).Draw(rt, "clock step")))
	set := rapid.SampledFrom(m.sets).Draw(rt, "set")
	order, bytes, members := m.clone()
	var batch []Change
	valid := true
	if rapid.IntRange(0, 9).Draw(rt, "many") == 0 {
		batch, valid = m.many(set)
	}
	for range rapid.IntRange(1, 6).Draw(rt, "size") {
		uri := "https://example.org/" + rapid.SampledFrom([]string{"a", "b", "c", "many/7"}).Draw(rt, "path")
		kinds := []resourcesync.Change{resourcesync.Created}
		if _, ok := m.members[set][uri]; ok {
			kinds = []resourcesync.Change{resourcesync.Updated, resourcesync.Deleted}
		}
		if rapid.IntRange(0, 19).Draw(rt, "wrong") == 0 {
			kinds = []resourcesync.Change{resourcesync.Created, resourcesync.Updated, resourcesync.Deleted}
		}
		ch := change(m.t, rapid.SampledFrom(kinds).Draw(rt, "kind"), uri[len("https://example.org/"):],
			strconv.Itoa(rapid.IntRange(0, 3).Draw(rt, "content")))
		valid = m.apply(set, ch) && valid
		batch = append(batch, ch)
	}
	err := m.catalog.Facts.Record(m.t.Context(), set, batch)
	if !valid {
		if !errors.Is(err, ErrState) {
			rt.Fatalf("Record of %+v = %v, want ErrState", batch, err)
		}
		m.order, m.bytes, m.members = order, bytes, members
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	m.recorded(rt, set, batch)
}

// many creates more than one statement takes.
func (m *model) many(set SetID) (batch []Change, valid bool) {
	valid = true
	for i := range bulkRows + 3 {
		ch := change(m.t, resourcesync.Created, "many/"+strconv.Itoa(i), "1")
		valid = m.apply(set, ch) && valid
		batch = append(batch, ch)
	}
	return batch, valid
}

func (m *model) recorded(rt *rapid.T, set SetID, batch []Change) {
	m.last = m.last.Add(time.Microsecond)
	if now := m.now.Truncate(time.Microsecond); now.After(m.last) {
		m.last = now
	}
	for _, ch := range batch {
		if ch.Seq != m.seq+1 {
			rt.Fatalf("change %d follows %d", ch.Seq, m.seq)
		}
		m.seq, ch.Datetime = ch.Seq, m.last
		if r, ok := m.members[set][ch.URI]; ok {
			r.Changed = m.last
			m.members[set][ch.URI] = r
		}
		ch.Path, ch.Stat = "", ""
		m.log[set] = append(m.log[set], ch)
	}
}

func (m *model) restat(rt *rapid.T) {
	if len(m.order) == 0 {
		return
	}
	r := m.bytes[rapid.SampledFrom(m.order).Draw(rt, "uri")]
	r.Stat = rapid.SampledFrom([]string{"", "x"}).Draw(rt, "stat")
	if err := m.catalog.Facts.Restat(m.t.Context(), []Resource{r}); err != nil {
		rt.Fatal(err)
	}
	m.bytes[r.URI] = r
}

// counted compares the counts that are kept with the members there are.
func counted(t interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}, c *Catalog,
) {
	t.Helper()
	rows, err := c.read.Query(`SELECT s.id, s.members, s.bytes, COUNT(r.id), COALESCE(SUM(r.length), 0)
		FROM sets s LEFT JOIN member m ON m.set_id = s.id LEFT JOIN resource r ON r.id = m.resource GROUP BY s.id`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var set SetID
		var got, want [2]int64
		if err := rows.Scan(&set, &got[0], &got[1], &want[0], &want[1]); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("set %d: counts of members and bytes are %d, want %d", set, got, want)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
}

// check compares everything that the catalog says.
func (m *model) check(rt *rapid.T) {
	counted(rt, m.catalog)
	for _, s := range m.sets {
		var want []Resource
		for _, uri := range m.order {
			if member, ok := m.members[s][uri]; ok {
				r := m.bytes[uri]
				r.Stored, r.Member, r.Changed, r.LastMod, r.Due, r.Remainder = true, true, member.Changed, member.LastMod, member.Due, member.Remainder
				want = append(want, r)
			}
		}
		if d := diff(collect(m.t, m.catalog.Facts.Members(m.t.Context(), s)), want); d != "" {
			rt.Fatalf("Members of set %d (-got +want):\n%s", s, d)
		}
		slices.SortFunc(want, func(a, b Resource) int {
			return strings.Compare(string(resourcesync.KeyOf(a.URI)), string(resourcesync.KeyOf(b.URI)))
		})
		if d := diff(collect(m.t, m.catalog.Facts.MembersByKey(m.t.Context(), s)), want); d != "" {
			rt.Fatalf("MembersByKey of set %d (-got +want):\n%s", s, d)
		}
		if d := diff(collect(m.t, m.catalog.Facts.Changes(m.t.Context(), s, 0, 1<<60)), m.log[s]); d != "" {
			rt.Fatalf("Changes of set %d (-got +want):\n%s", s, d)
		}
	}
}

func TestCatalogBehavesLikeItsModel(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		c := reopen(t, filepath.Join(dir, strconv.Itoa(runs)+".db"), true)
		m := newModel(t, hasten(t, c))
		rt.Repeat(map[string]func(*rapid.T){
			"record": m.record,
			"restat": m.restat,
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
					return
				}
				m.catalog = hasten(t, reopenWithClock(t, m.catalog, &m.now))
			},
			"": m.check,
		})
		if err := m.catalog.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// hasten has c not wait for the disk: this is no test of what survives a crash.
func hasten(t *testing.T, c *Catalog) *Catalog {
	t.Helper()
	if _, err := c.write.Exec("PRAGMA synchronous = OFF"); err != nil {
		t.Fatal(err)
	}
	return c
}
