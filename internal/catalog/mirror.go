package catalog

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"instep/resourcesync"
)

// Intent is a planned change of a file. It is stored durably before the file is changed,
// so that after a crash the catalog knows which files may differ from their recorded
// states.
type Intent struct {
	URI    string
	Guess  string // folded form of the path that a new URI will probably get, which Intend looks up in advance; "" if it is unknown
	New    bool   // whether the URI had no path before the intent; Intend sets this field
	Path   string // path of the file; "" if the URI is new and Intend has to find a path
	Kept   string // path to which the current file at Path is moved; "" if there is no file to keep
	Taken  string // the path from which an existing file is moved to Path, and to which it returns if the intent is undone; "" if a new file is written to Path
	Length resourcesync.Length
	SHA256 resourcesync.Digest // the SHA-256 of the new bytes; zero if the file is removed
}

// Names looks up paths in the catalog. Its methods take folded paths: all paths of the
// same file have the same folded form (see FoldBy).
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
	return queryAll(c.reading(ctx, "read intents of the catalog"), nil, func(in *Intent) []any {
		return []any{&in.URI, &in.New, &in.Path, &in.Kept, lengthTo(&in.Length), digestTo(&in.SHA256), &in.Taken}
	}, "SELECT uri, resource IS NULL, path, kept, length, sha256, taken FROM intent ORDER BY uri")
}

// Find returns the resource with this URI as it is in a set, or the zero Resource if the
// URI is unknown. For a single URI, Find is several times as fast as Lookup, whose query
// is prepared for each call.
func (c *Mirror) Find(ctx context.Context, set SetID, uri string) (v Resource, err error) {
	base, rest := split(uri)
	_, err = scanRow(c.reading(ctx, "look up a resource in the catalog"), v.columns(), "SELECT "+resourceColumns+memberColumns+` FROM base b CROSS JOIN resource r ON r.base = b.id AND r.rest = $3
	CROSS JOIN directory d ON d.id = r.dir LEFT JOIN member m ON m.set_id = $1 AND m.resource = r.id WHERE b.uri = $2`, set, base, rest)
	return v, err
}

// Membership is the state of a resource in a set.
type Membership struct {
	Set       SetID
	URI       string
	Changed   time.Time // precise to microseconds
	LastMod   resourcesync.Datetime
	Due       string
	Wanted    string
	Relabel   bool      // whether only attributes of the resource changed, not its bytes; the history stores the state before such a change, too
	Remainder string    // further attributes of the resource in the set, as the text of a resourcesync.Remainder
	Told      bool      // whether the Source stated the membership in a change, not in a list; Holders does not set this field
	Unnamed   bool      // whether the membership began again after lists or changes had ended it; Holders does not set this field
	Until     time.Time // the latest possible time of the change, if Changed is only the earliest possible time; otherwise zero; Holders does not set this field
	Came      time.Time // the time at which the bytes arrived, by the clock of the server that sent them; zero if it is unknown, or not needed because there are digests; Holders does not set this field
}

// Outcome is the result of a batch of changes to a mirror: the new states of resources,
// and a cursor with the position up to which the set was synchronized.
type Outcome struct {
	Stored  []Resource   // the resources whose new bytes are now at their paths; URI, Length, Digests, Verified and Type are set
	Noted   []Resource   // the resources whose bytes did not change; URI, Verified and Type are set
	Members []Membership // the memberships that begin or change
	Ended   []Membership // the memberships that end, with the fields Set and URI; a resource is deleted with its last membership
	Gone    []Evidence   // the statements of the Source that resources were deleted
	Meant   bool         // whether the user has approved the end of the memberships in Ended; then they do not count as losses
	Dropped []string     // the URIs of further resources, which are deleted if they are in no set
	Found   []Found      // the files that belonged to no resource and were moved away because a resource got their path
	Fresh   []Intent     // the intents that Intend added for new resources; a resource that is not in Stored gets a path, but no bytes
	Cursor  *Cursor
	Run     *Run      // the run with its counts; if it is nil, ended states are not stored in the history; Settle sets the ID of a new run
	At      time.Time // current time by the clock of the mirror; required if Run is set
}

// Found is a file that was at the path of a resource but did not belong to any resource.
// It is stored in the history as an ended state, in a set for such files.
type Found struct {
	Set    SetID
	URI    string // URI of the resource whose path the file had
	Path   string // the path of the file before it was moved
	Kept   string // the path of the file after it was moved
	Length resourcesync.Length
}

// Cursor is the position up to which a set was synchronized.
type Cursor struct {
	Set    SetID
	Body   string    // the position, in a form that the catalog does not interpret
	Listed time.Time // time of the list that was read completely; Settle deletes earlier evidence; zero if no list was read
}

// Settle records an outcome and removes its intents, all or none.
//
// If ready is not nil, files may still be written when Settle is called. Settle calls
// ready before it commits the transaction, and ready has to wait until the files are
// durable. Nobody else can write to the catalog during that call. If ready returns an
// error, Settle records nothing and returns the same error.
func (c *Mirror) Settle(ctx context.Context, o Outcome, ready func() error) error {
	var run int64
	var unready error
	err := c.transact(ctx, "record an outcome in the catalog", func(r *recorder) {
		if o.Run != nil {
			r.moment = o.At.UnixMicro()
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
		_ = c.indexContents(ctx) // the error is ignored: the outcome is recorded already, and the next search for content tries again
	}
	return nil
}

// indexContents creates the index of resources by SHA-256 if it is missing. The index is
// created only after the first synchronization or for the first search, because it would
// double the time of the first synchronization: its rows are in random order.
func (c *db) indexContents(ctx context.Context) error {
	if c.contents.Load() {
		return nil
	}
	err := withTempFiles(ctx, c.write, func() error {
		return c.execute(ctx, "index the contents of the catalog",
			"CREATE INDEX IF NOT EXISTS "+contentIndex+" ON resource (sha256) WHERE sha256 IS NOT NULL AND fold IS NOT NULL")
	})
	if err == nil {
		c.contents.Store(true)
	}
	return err
}

const contentIndex = "resource_content"

// hasContentIndex reports whether the index of resources by SHA-256 exists. It creates
// a missing index, unless the catalog was opened read-only.
func (c *db) hasContentIndex(ctx context.Context) (bool, error) {
	if !c.readOnly {
		return true, c.indexContents(ctx)
	}
	return exists(c.reading(ctx, "find content in the catalog"), "sqlite_master WHERE name = $1", contentIndex)
}

type settling struct {
	*recorder
	*Outcome
	run   int64
	rows  map[string]int64     // row numbers of the resources of the outcome, by URI
	fresh map[string]*Resource // the new resources, by URI: pointers to elements of Stored; nil for a new resource without bytes
	logs  func() (bool, error) // see Mirror.LogIf
	now   int64                // current time in microseconds since 1970
}

func (s *settling) settle() {
	s.findRows()
	counts := s.countNew()
	known := slices.Collect(maps.Values(s.rows))
	s.tally(known, counts, -1)
	s.endStates()
	s.insertNew()
	s.updateStored()
	s.updateNoted()
	s.writeMemberships()
	s.writeLog()
	s.dropResources()
	s.tally(known, counts, 1)
	for set, n := range counts {
		s.count(set, n[0], n[1])
	}
	s.storeCursor()
	s.dropUnusedDirectories()
	s.exec("DELETE FROM intent")
}

// dropUnusedDirectories deletes the directories that Intend recorded for new resources,
// if the outcome does not contain these resources.
func (s *settling) dropUnusedDirectories() {
	if len(s.Fresh) > 0 { // the outcome has all new resources, so their directories are needed
		return
	}
	paths, _ := queryColumn[string](s.recorder, "SELECT path FROM intent WHERE resource IS NULL")
	for _, path := range paths {
		dir, _ := split(path)
		s.dropDirectory(s.fold(dir))
	}
}

func (s *settling) findRows() {
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

// countNew returns, for each set, the number of new resources and the sum of their
// lengths.
func (s *settling) countNew() map[SetID][2]int64 {
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

func (s *settling) insertNew() {
	rows := make([]newResource, len(s.Fresh))
	for i := range s.Fresh {
		in := &s.Fresh[i]
		_, name := split(in.Path)
		rows[i] = newResource{in.URI, in.Path, s.fresh[in.URI], s.fold(name)}
	}
	n := s.insertResources("INSERT OR FAIL", s.fold, rows)
	for i := range rows {
		s.rows[rows[i].uri] = s.lastID - int64(len(rows)-1-i)
	}
	if n != int64(len(rows)) {
		s.stop(fmt.Errorf("%w: expected only new resources, but %d of %d were new", ErrState, n, len(rows)))
	}
}

func (s *settling) updateStored() {
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
	s.execRows(`UPDATE OR FAIL resource SET stored = TRUE, length = column2, sha256 = column3, digests = column4, verified = column5,
		type = column6, stat = column7 FROM (`, "(?,?,?,?,?,?,?)", ") WHERE id = column1", args)
}

func (s *settling) updateNoted() {
	for i := range s.Noted {
		n := &s.Noted[i]
		s.exec("UPDATE resource SET verified = $2, type = $3 WHERE id = $1", s.rows[n.URI], n.Verified, n.Type)
	}
}

// writeMemberships writes in the order of row numbers, so that it changes only a few
// pages of the table.
func (s *settling) writeMemberships() {
	all := slices.Clone(s.Members)
	slices.SortFunc(all, func(a, b Membership) int { return cmp.Compare(s.rows[a.URI], s.rows[b.URI]) })
	args := make([]any, 0, 10*len(all))
	for i := range all {
		m := &all[i]
		row := s.rows[m.URI]
		if row == 0 {
			s.stop(fmt.Errorf("%w: a membership was recorded for %q, which has no path", ErrState, m.URI))
		}
		args = append(args, m.Set, row, m.Changed.UnixMicro(), m.LastMod.String(), m.Due, m.Wanted, s.moment, s.run, s.run, writeText(m.Remainder))
	}
	s.execRows("INSERT INTO member (set_id, resource, changed, lastmod, due, wanted, since, run, born, remainder) ", "(?,?,?,?,?,?,?,?,?,?)",
		` ON CONFLICT (set_id, resource) DO UPDATE SET changed = excluded.changed, lastmod = excluded.lastmod,
		due = excluded.due, wanted = excluded.wanted, remainder = excluded.remainder`, args)
	s.writeEvidence(s.Members, s.Gone)
}

func (s *settling) dropResources() {
	for i := range s.Ended {
		s.dropUnused(s.rows[s.Ended[i].URI])
	}
	for _, uri := range s.Dropped {
		s.dropUnused(s.rows[uri])
	}
}

// dropUnused deletes a resource if it is in no set, and then its base (the part of the
// URI up to the last slash) if no other resource has this base.
func (r *recorder) dropUnused(id int64) {
	var base, dir int64
	if !r.scanRow([]any{&base, &dir}, "DELETE FROM resource WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM member WHERE resource = $1) RETURNING base, dir", id) {
		return
	}
	r.leave(dir)
	if r.exec("DELETE FROM base WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM resource WHERE base = $1)", base) > 0 {
		clear(r.bases)
	}
}

func (s *settling) storeCursor() {
	if s.Cursor == nil {
		return
	}
	set := s.Cursor.Set
	s.exec(`INSERT INTO cursor (set_id, body) VALUES ($1, $2)
		ON CONFLICT (set_id) DO UPDATE SET body = excluded.body`, set, s.Cursor.Body)
	s.storeNumber(committedSetting(set), s.At.UnixMicro())
	if !s.Cursor.Listed.IsZero() {
		s.exec("DELETE FROM evidence WHERE set_id = $1 AND moment < $2", set, s.Cursor.Listed.UnixMicro())
	}
	s.recordExtent(set, s.At.UnixMicro())
}

func committedSetting(set SetID) string { return fmt.Sprint("committed ", set) }

// Committed returns the time at which the cursor of a set was last stored, by the clock
// of the mirror. At that time the results of a run were complete. Committed returns the
// zero time if an earlier version of this program stored the cursor.
func (c *Mirror) Committed(ctx context.Context, set SetID) (time.Time, error) {
	micros, _, err := readNumber(c.reading(ctx, "read a cursor of the catalog"), committedSetting(set))
	return readMicros(micros), err
}

// Holders returns all memberships of the resources with these URIs.
func (c *Mirror) Holders(ctx context.Context, uris []string) (memberships []Membership, err error) {
	var m Membership
	err = lookup(c.reading(ctx, "look up memberships in the catalog"), []any{&m.URI, &m.Set, timeTo(&m.Changed), datetimeTo(&m.URI, &m.LastMod), &m.Due, &m.Wanted, textTo(&m.Remainder)},
		func() { memberships = append(memberships, m) }, "SELECT b.uri || r.rest, m.set_id, m.changed, m.lastmod, m.due, m.wanted, m.remainder"+byURI+
			"CROSS JOIN member m ON m.resource = r.id", "(?,?,?)", splitKeys(uris))
	return memberships, err
}

// The + before m.set_id keeps SQLite from using the primary key, with which it would
// read all members of the set.
const dueQuery = "SELECT " + resourceColumns + memberColumns + `
	FROM member m CROSS JOIN resource r ON r.id = m.resource` + placed + `
	WHERE m.due <> '' AND m.resource > $1 AND +m.set_id = $3 ORDER BY m.resource LIMIT $2`

// Due yields the members of a set whose bytes have to be fetched again, which means that
// their field Due is not empty. They are in the order in which they were first recorded.
func (c *Mirror) Due(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return listing(c.reading(ctx, "list the resources of the catalog that have to be fetched again"), dueQuery, 0, (*Resource).byID, set)
}

const contentQuery = "SELECT " + resourceColumns + noMember + " FROM resource r" + placed + `
	WHERE r.sha256 = $1 AND r.fold IS NOT NULL AND r.length = $2 AND r.stored
	AND NOT EXISTS (SELECT 1 FROM member m WHERE m.resource = r.id AND m.due <> '')
	ORDER BY r.id LIMIT 1`

// FindContent finds a resource whose stored bytes have this SHA-256 and length, or
// returns false if there is none. It skips resources that are due in any set: their
// bytes have to be fetched again.
func (c *Mirror) FindContent(ctx context.Context, sha256 resourcesync.Digest, length int64) (v Resource, found bool, err error) {
	if indexed, err := c.hasContentIndex(ctx); err != nil || !indexed {
		return v, false, err
	}
	found, err = scanRow(c.reading(ctx, "find content in the catalog"), v.columns(), contentQuery, sha256.Sum(), length)
	return v, found, err
}

// Cursor returns the body of the cursor of a set, or false if the set was never
// synchronized.
func (c *Mirror) Cursor(ctx context.Context, set SetID) (body string, ok bool, err error) {
	return queryValue[string](c.reading(ctx, "read a cursor of the catalog"), "SELECT body FROM cursor WHERE set_id = $1", set)
}
