package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"instep/resourcesync"
)

// Intent is a planned change of the file at a path. It is durable before the file is
// touched, so after a crash the catalog knows which files may differ from their
// recorded state.
type Intent struct {
	URI    string
	Guess  string // the path that a new URI will probably get, in folded form; Intend looks it up first. "" if it is unknown
	New    bool   // the URI had no path before the intent; Intend finds this out
	Path   string // path of the file; "" if the URI is new and Intend has to find a path
	Kept   string // path to which the current file at Path is moved; "" if there is no file to keep
	Taken  string // the path from which an existing file is moved to Path, and to which it returns if the intent is undone; "" if a new file is written to Path
	Length resourcesync.Length
	SHA256 resourcesync.Digest // the SHA-256 of the new bytes; zero if the file is removed
}

// Names looks up which paths are in use. It takes paths in folded form, in which all
// names of the same file are equal: see FoldBy.
type Names interface {
	// File reports whether a path belongs to a resource.
	File(fold string) (bool, error)
	// Directory returns the path of a directory in the spelling in which it was first
	// recorded.
	Directory(fold string) (path string, ok bool, err error)
}

// Place is a path that was found for a new resource.
type Place struct {
	Path        string
	Directories []string // the directories above Path that the catalog does not have yet
	Kept        string   // the path to which the current file at Path is moved; "" if there is no file
}

// Intents returns the intents (planned changes of files) that Settle has not removed
// yet.
func (c *Mirror) Intents(ctx context.Context) ([]Intent, error) {
	return rows(c.reading(ctx, "read intents of the catalog"), nil, func(in *Intent) []any {
		return []any{&in.URI, &in.New, &in.Path, &in.Kept, lengthTo(&in.Length), digestTo(&in.SHA256), &in.Taken}
	}, "SELECT uri, resource IS NULL, path, kept, length, sha256, taken FROM intent ORDER BY uri")
}

// Find returns the resource with this URI as it is in a set, or the zero Resource if it
// is unknown. For a single URI it is several times as fast as Lookup.
func (c *Mirror) Find(ctx context.Context, set SetID, uri string) (Resource, error) {
	base, rest := split(uri)
	v, _, err := c.one(ctx, "look up a resource in the catalog", findQuery, set, base, rest)
	return v, err
}

const findQuery = "SELECT " + resourceColumns + memberColumns + ` FROM base b CROSS JOIN resource r ON r.base = b.id AND r.rest = $3
	CROSS JOIN directory d ON d.id = r.dir LEFT JOIN member m ON m.set_id = $1 AND m.resource = r.id WHERE b.uri = $2`

func (c *Mirror) one(ctx context.Context, op, query string, args ...any) (v Resource, ok bool, err error) {
	ok, err = first(prepared{c.reading(ctx, op), c}, v.columns(), query, args...)
	return v, ok, err
}

// prepared is a reading that prepares each query only once, since preparing takes
// several times as long as running a query for one resource.
type prepared struct {
	reading
	m *Mirror
}

func (p prepared) query(query string, args ...any) (*sql.Rows, error) {
	s, err := p.m.statement(p.ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(p.ctx, args...)
}

func (c *Mirror) statement(ctx context.Context, query string) (s *sql.Stmt, err error) {
	c.preparing.Lock()
	defer c.preparing.Unlock()
	if s = c.statements[query]; s == nil {
		if s, err = c.read.PrepareContext(ctx, query); err == nil {
			c.statements[query] = s
		}
	}
	return s, err
}

// Membership is the state of a resource in a set.
type Membership struct {
	Set       SetID
	URI       string
	Changed   time.Time // precise to microseconds
	LastMod   resourcesync.Datetime
	Due       string
	Wanted    string
	Relabel   bool      // only attributes of the resource in the set changed, not its bytes; this ends a state in the history, too
	Remainder string    // further attributes of the resource in the set, as the text of a resourcesync.Remainder
	Told      bool      // the Source stated this in a change, not in a list; Holders does not set the field
	Unnamed   bool      // the membership began again after the lists and changes had ended it; Holders does not set the field
	Until     time.Time // the latest possible time of the change, while Changed is the earliest; zero if the exact time is known; Holders does not set the field
	Came      time.Time // the time at which the bytes arrived, by the clock of the server that sent them; zero if it is unknown, or if digests make it unnecessary; Holders does not set the field
}

// Outcome is the result of a batch of changes to a mirror: the new states of resources,
// and the new cursor, which says up to which position the set was synchronized.
type Outcome struct {
	Stored  []Resource   // the resources whose new bytes are now at their paths; URI, Length, Digests, Verified and Type are set
	Noted   []Resource   // the resources whose bytes did not change; URI, Verified and Type are set
	Members []Membership // the memberships that begin or change
	Ended   []Membership // the memberships that end; Set and URI are set; a resource is deleted with its last membership
	Gone    []Evidence   // the statements of the Source that resources were deleted
	Meant   bool         // the user has approved the end of the memberships in Ended, so they do not count as losses
	Dropped []string     // the URIs of further resources, which are deleted if they are in no set
	Found   []Found      // the files that belonged to no resource and were moved away from the path of one
	Fresh   []Intent     // the intents with New set, as Intend left them; a resource that has such an intent but is not in Stored gets a path without bytes
	Cursor  *Cursor
	Run     *Run      // the run with its counts, or nil; if there is a run, states that end are stored in the history, and Settle sets the ID of a new run
	At      time.Time // current time by the clock of the mirror; required if Run is set
}

// Found is a file that was at the path of a resource but did not belong to any
// resource. The history gets it as an ended state in a set of its own.
type Found struct {
	Set    SetID
	URI    string // URI of the resource whose path the file had
	Path   string // path at which the file was
	Kept   string // path to which the file was moved
	Length resourcesync.Length
}

// Cursor says up to which position a set was synchronized. The catalog does not
// interpret Body.
type Cursor struct {
	Set    SetID
	Body   string
	Listed time.Time // the time of a list that was read completely, before which evidence is deleted; zero if there is none
}

// Settle records an outcome and removes its intents, all or none.
//
// Files may still be written while Settle runs, if ready is not nil. Before the
// transaction is committed, Settle calls ready, which has to wait until the files are
// durable; nobody else can write to the catalog in that time. If ready fails, Settle
// records nothing and returns its error unchanged.
func (c *Mirror) Settle(ctx context.Context, o Outcome, ready func() error) error {
	var run int64
	var unready error
	err := c.transact(ctx, "record an outcome in the catalog", func(r *recorder) {
		if o.Run != nil {
			r.at = o.At.UnixMicro()
			run = r.enterRun(o.Run)
		}
		s := settling{recorder: r, Outcome: &o, run: run, logs: c.logs, now: c.instant().UnixMicro()}
		s.settle()
		if r.err == nil && ready != nil {
			unready = ready()
			r.stop(unready)
		}
	})
	if err := cmp.Or(unready, err); err != nil {
		return err
	}
	if o.Run != nil {
		o.Run.ID = run
	}
	if o.Cursor != nil {
		_ = c.indexContents(ctx) // the outcome stays recorded if this fails; the next search for content tries again and reports the error
	}
	return nil
}

// indexContents creates the index that finds resources by their SHA-256, if it is
// missing. The rows of the index are in random order, so maintaining it would double
// the time of the first synchronization, which does not use it. Therefore it is created
// afterwards, or for the first search.
func (c *db) indexContents(ctx context.Context) error {
	if c.contents.Load() {
		return nil
	}
	err := spilling(ctx, c.write, func() error {
		return c.execute(ctx, "index the contents of the catalog",
			"CREATE INDEX IF NOT EXISTS "+contentIndex+" ON resource (sha256) WHERE sha256 IS NOT NULL AND fold IS NOT NULL")
	})
	if err == nil {
		c.contents.Store(true)
	}
	return err
}

const contentIndex = "resource_content"

// canFind reports whether the index that finds resources by SHA-256 exists. It creates
// a missing index, unless the catalog was opened read-only.
func (c *db) canFind(ctx context.Context) (bool, error) {
	if !c.readOnly {
		return true, c.indexContents(ctx)
	}
	return exists(c.reading(ctx, "find content in the catalog"), "sqlite_master WHERE name = $1", contentIndex)
}

// settling is the state of a call of Settle while it writes an outcome.
type settling struct {
	*recorder
	*Outcome
	run   int64
	rows  map[string]int64     // row numbers of the resources of the outcome, by URI
	fresh map[string]*Resource // the new resources, as in the field Stored of the outcome, by URI; nil for a resource without bytes
	logs  func() (bool, error) // see Mirror.LogIf
	now   int64                // microseconds
}

func (s *settling) settle() {
	s.find()
	counts := s.counts()
	known := slices.Collect(maps.Values(s.rows))
	s.tally(known, counts, -1)
	s.end()
	s.newcomers()
	s.stored()
	s.note()
	s.begin()
	s.log()
	s.drop()
	s.tally(known, counts, 1)
	for set, n := range counts {
		s.count(set, n[0], n[1])
	}
	s.move()
	s.forgetPlaces()
	s.exec("DELETE FROM intent")
}

// forgetPlaces deletes the directories that Intend recorded for new resources, if these
// resources were not stored after all.
func (s *settling) forgetPlaces() {
	if len(s.Fresh) > 0 { // an outcome with new resources has all of them, so their directories are needed
		return
	}
	paths, _ := column[string](s.recorder, "SELECT path FROM intent WHERE resource IS NULL")
	for _, path := range paths {
		dir, _ := split(path)
		s.dropDirectory(s.fold(dir))
	}
}

func (s *settling) find() {
	s.fresh = make(map[string]*Resource, len(s.Fresh))
	for i := range s.Fresh {
		s.fresh[s.Fresh[i].URI] = nil
	}
	uris := slices.Concat(urisOf(s.Stored), urisOf(s.Noted), s.Dropped)
	for _, m := range slices.Concat(s.Members, s.Ended) {
		uris = append(uris, m.URI)
	}
	for i := range s.Stored {
		one := &s.Stored[i]
		if _, ok := s.fresh[one.URI]; ok {
			s.fresh[one.URI] = one
		}
	}
	s.rows = s.rowsOf(slices.DeleteFunc(uris, func(uri string) bool {
		_, fresh := s.fresh[uri]
		return fresh
	}))
}

// counts returns, for each set, the number of its new resources and the sum of their
// lengths.
func (s *settling) counts() map[SetID][2]int64 {
	counts := map[SetID][2]int64{}
	for i := range s.Members {
		m := &s.Members[i]
		one, ok := s.fresh[m.URI]
		if !ok {
			continue
		}
		c := counts[m.Set]
		c[0]++
		if one != nil && one.Length.Known() {
			c[1] += one.Length.Int64()
		}
		counts[m.Set] = c
	}
	return counts
}

func (s *settling) newcomers() {
	rows := make([]newResource, len(s.Fresh))
	for i := range s.Fresh {
		in := &s.Fresh[i]
		_, name := split(in.Path)
		rows[i] = newResource{in.URI, in.Path, s.fresh[in.URI], s.fold(name)}
	}
	n := s.insertResources("INSERT OR FAIL", s.fold, rows)
	for i := range rows {
		s.rows[rows[i].uri] = s.last - int64(len(rows)-1-i)
	}
	if n != int64(len(rows)) {
		s.stop(fmt.Errorf("%w: expected only new resources, but %d of %d were new", ErrState, n, len(rows)))
	}
}

func (s *settling) stored() {
	args := make([]any, 0, 7*len(s.Stored))
	for i := range s.Stored {
		one := &s.Stored[i]
		if _, ok := s.fresh[one.URI]; ok {
			continue
		}
		row := s.rows[one.URI]
		if row == 0 {
			s.stop(fmt.Errorf("%w: bytes were stored for %q, which has no path", ErrState, one.URI))
		}
		digests, sha256 := writeDigests(one.Digests)
		args = append(args, row, writeLength(one.Length), sha256, digests, one.Verified, one.Type, one.Stat)
	}
	s.eachRow(`UPDATE OR FAIL resource SET stored = TRUE, length = column2, sha256 = column3, digests = column4, verified = column5,
		type = column6, stat = column7 FROM (`, "(?,?,?,?,?,?,?)", ") WHERE id = column1", args)
}

func (s *settling) note() {
	for i := range s.Noted {
		n := &s.Noted[i]
		s.exec("UPDATE resource SET verified = $2, type = $3 WHERE id = $1", s.rows[n.URI], n.Verified, n.Type)
	}
}

// begin inserts or changes memberships in the order of row numbers, so that consecutive
// memberships are on the same page of the table.
func (s *settling) begin() {
	all := slices.Clone(s.Members)
	slices.SortFunc(all, func(a, b Membership) int { return cmp.Compare(s.rows[a.URI], s.rows[b.URI]) })
	args := make([]any, 0, 10*len(all))
	for i := range all {
		m := &all[i]
		row := s.rows[m.URI]
		if row == 0 {
			s.stop(fmt.Errorf("%w: a membership was recorded for %q, which has no path", ErrState, m.URI))
		}
		args = append(args, m.Set, row, m.Changed.UnixMicro(), m.LastMod.String(), m.Due, m.Wanted, s.at, s.run, s.run, writeText(m.Remainder))
	}
	s.eachRow("INSERT INTO member (set_id, resource, changed, lastmod, due, wanted, since, run, born, remainder) ", "(?,?,?,?,?,?,?,?,?,?)",
		` ON CONFLICT (set_id, resource) DO UPDATE SET changed = excluded.changed, lastmod = excluded.lastmod,
		due = excluded.due, wanted = excluded.wanted, remainder = excluded.remainder`, args)
	s.noteEvidence(s.Members, s.Gone)
}

func (s *settling) drop() {
	for i := range s.Ended {
		s.dropUnheld(s.rows[s.Ended[i].URI])
	}
	for _, uri := range s.Dropped {
		s.dropUnheld(s.rows[uri])
	}
}

// dropUnheld deletes a resource if it is in no set. Then it deletes the row of the
// resource's base (the part of the URI up to the last slash) if no other resource has
// that base.
func (r *recorder) dropUnheld(id int64) {
	var base, dir int64
	if !r.first([]any{&base, &dir}, "DELETE FROM resource WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM member WHERE resource = $1) RETURNING base, dir", id) {
		return
	}
	r.leave(dir)
	if r.exec("DELETE FROM base WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM resource WHERE base = $1)", base) > 0 {
		clear(r.bases)
	}
}

// move stores the cursor of the set, and records its current number of members. It
// deletes the evidence from before a list that was read completely.
func (s *settling) move() {
	if s.Cursor == nil {
		return
	}
	set := s.Cursor.Set
	s.exec(`INSERT INTO cursor (set_id, body) VALUES ($1, $2)
		ON CONFLICT (set_id) DO UPDATE SET body = excluded.body`, set, s.Cursor.Body)
	s.keepNumber(committedSetting(set), s.At.UnixMicro())
	if !s.Cursor.Listed.IsZero() {
		s.exec("DELETE FROM evidence WHERE set_id = $1 AND moment < $2", set, s.Cursor.Listed.UnixMicro())
	}
	s.noteExtent(set, s.At.UnixMicro())
}

func committedSetting(set SetID) string { return fmt.Sprint("committed ", set) }

// Committed returns when the cursor of a set was last stored, by the clock of the
// mirror. At that moment the results of a run were complete. The time is zero if an
// earlier version of this program stored the cursor.
func (c *Mirror) Committed(ctx context.Context, set SetID) (time.Time, error) {
	micros, _, err := number(c.reading(ctx, "read a cursor of the catalog"), committedSetting(set))
	return readMicros(micros), err
}

// Holders returns all memberships of the resources with these URIs.
func (c *Mirror) Holders(ctx context.Context, uris []string) (all []Membership, err error) {
	var m Membership
	err = lookup(c.reading(ctx, "look up memberships in the catalog"), []any{&m.URI, &m.Set, timeTo(&m.Changed), datetimeTo(&m.URI, &m.LastMod), &m.Due, &m.Wanted, textTo(&m.Remainder)},
		func() { all = append(all, m) }, "SELECT b.uri || r.rest, m.set_id, m.changed, m.lastmod, m.due, m.wanted, m.remainder"+byURI+
			"CROSS JOIN member m ON m.resource = r.id", "(?,?,?)", splitKeys(uris))
	return all, err
}

// The + before m.set_id keeps SQLite from using the primary key, with which it would
// read all members of the set.
const dueQuery = "SELECT " + resourceColumns + memberColumns + `
	FROM member m CROSS JOIN resource r ON r.id = m.resource` + placed + `
	WHERE m.due <> '' AND m.resource > $1 AND +m.set_id = $3 ORDER BY m.resource LIMIT $2`

// Due yields the members of a set whose field Due is not empty, in the order in which
// they were first recorded.
func (c *Mirror) Due(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return listing(c.reading(ctx, "list the resources of the catalog that have to be fetched again"), dueQuery, 0, (*Resource).byID, set)
}

const contentQuery = "SELECT " + resourceColumns + noMember + " FROM resource r" + placed + `
	WHERE r.sha256 = $1 AND r.fold IS NOT NULL AND r.length = $2 AND r.stored
	AND NOT EXISTS (SELECT 1 FROM member m WHERE m.resource = r.id AND m.due <> '')
	ORDER BY r.id LIMIT 1`

// FindContent finds a resource whose stored bytes have this SHA-256 and length. It
// skips resources with the field Due set in any set, because their bytes have to be
// fetched again. It returns false if there is none.
func (c *Mirror) FindContent(ctx context.Context, sha256 resourcesync.Digest, length int64) (Resource, bool, error) {
	if can, err := c.canFind(ctx); err != nil || !can {
		return Resource{}, false, err
	}
	return c.one(ctx, "find content in the catalog", contentQuery, sha256.Sum(), length)
}

// Cursor returns the body of the cursor of a set, or false if the set was never
// synchronized.
func (c *Mirror) Cursor(ctx context.Context, set SetID) (body string, ok bool, err error) {
	return value[string](c.reading(ctx, "read a cursor of the catalog"), "SELECT body FROM cursor WHERE set_id = $1", set)
}
