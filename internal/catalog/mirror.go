package catalog

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"instep/resourcesync"
)

// Intent is a change of the file at a path that is about to be made. It is durable
// before the file is touched, so that after a crash it is known which files may
// not be what the catalog says.
type Intent struct {
	Key    resourcesync.Key
	URI    string           // only for Intend, where Path is ""
	Guess  resourcesync.Key // only for Intend, where Path is "": fold of the path that place tries first; zero: unknown
	New    bool             // the URI had no path before; set by Intend
	Path   string           // "": the URI is new, Intend gives it a path
	Fold   resourcesync.Key // of Path; set by Intend if New
	Kept   string           // where the bytes at Path go; "": nothing is there that has to stay
	Taken  string           // where the bytes to come are now, and go back to if this is undone; "": they are made
	Length resourcesync.Length
	SHA256 resourcesync.Digest // of the bytes to come; zero: none come
}

// Names tells what holds a folded path.
type Names interface {
	// File reports whether it is the path of a resource.
	File(fold resourcesync.Key) (bool, error)
	// Directory returns the directory with that folded path as it was first written.
	Directory(fold resourcesync.Key) (path string, ok bool, err error)
}

// Place is a path for a resource.
type Place struct {
	Path        string
	Fold        resourcesync.Key // of Path
	Directories []Directory      // those above it that are new
	Kept        string           // where what stands at Path goes; "": nothing does
}

// Directory is a directory that holds files of ours, or is about to.
type Directory struct {
	Path string
	Fold resourcesync.Key
}

// Intents returns the intents that were recorded and not settled. If whole, they are all
// that the outcome of a commit was, and Complete can settle it.
func (c *Catalog) Intents(ctx context.Context) (intents []Intent, whole bool, err error) {
	arrived, err := c.begun(ctx)
	if err != nil {
		return nil, false, err
	}
	others, err := rows(ctx, c, "read intents of", scanIntent, "SELECT key, path, kept, length, sha256, taken FROM intent ORDER BY key")
	if err != nil {
		return nil, false, err
	}
	whole = len(arrived) > 0 && len(others) == 0
	for i := range arrived {
		whole = whole && arrived[i].Whole
		for j := range arrived[i].New {
			in, err := arrived[i].New[j].intent()
			if err != nil {
				return nil, false, c.fail("read intents of", err)
			}
			intents = append(intents, in)
		}
	}
	return append(intents, others...), whole, nil
}

func scanIntent(r *sql.Rows) (in Intent, err error) {
	var key, sum []byte
	var length sql.NullInt64
	if err := r.Scan(&key, &in.Path, &in.Kept, &length, &sum, &in.Taken); err != nil {
		return in, err
	}
	if in.Key, err = readKey(key); err != nil {
		return in, err
	}
	in.Length = readLength(length)
	in.SHA256, err = readSHA256(sum)
	return in, err
}

// Finder looks up single resources, several times as fast as Lookup.
type Finder struct {
	c    *Catalog
	stmt *sql.Stmt
}

// Finder returns a Finder, to be closed before the catalog.
func (c *Catalog) Finder(ctx context.Context) (*Finder, error) {
	s, err := c.read.PrepareContext(ctx, "SELECT "+resourceColumns+", "+memberColumns+` FROM resource r
		LEFT JOIN member m ON m.set_id = $1 AND m.key = r.key WHERE r.key = $2`)
	if err != nil {
		return nil, c.fail("look up resources in", err)
	}
	return &Finder{c, s}, nil
}

// Find returns the resource with this key as seen from set; the zero Resource if it is unknown.
func (f *Finder) Find(ctx context.Context, set SetID, key resourcesync.Key) (v Resource, err error) {
	if waits, ok := f.c.ledger.find(set, key); ok {
		return waits, nil
	}
	if f.c.sieve.lacks(key) {
		return v, nil
	}
	r, err := f.stmt.QueryContext(ctx, set, key[:])
	if err != nil {
		return v, f.c.fail("look up a resource in", err)
	}
	if r.Next() {
		err = scanResource(r, &v)
	}
	if err := errors.Join(err, r.Err(), r.Close()); err != nil {
		return Resource{}, f.c.fail("look up a resource in", err)
	}
	return v, nil
}

// Close ends all use of the Finder.
func (f *Finder) Close() error { return f.stmt.Close() }

// Membership is what a set says of a resource.
type Membership struct {
	Set       SetID
	Key       resourcesync.Key
	Changed   time.Time // kept in microseconds
	LastMod   resourcesync.Datetime
	Due       string
	Wanted    string
	Relabel   bool      // what the set says of the same bytes changes: that ends a state
	Remainder string    // what else the set says of the resource
	Told      bool      // a change has said so, and no list; not by Holders
	Until     time.Time // of a change whose time is unknown: at the latest then, and Changed is the earliest; else zero; not by Holders
	Came      time.Time // when the bytes came, by the clock of their server; zero if that is unknown, or digests tell more; not by Holders
}

// Outcome is what has become of resources, and how far a set was followed.
type Outcome struct {
	Stored  []Resource   // their bytes are at their path: Key, Length, Digests, Verified, Type
	Noted   []Resource   // their bytes are as before: Key, Verified, Type
	Members []Membership // begin or change
	Ended   []Membership // end: Set, Key; a resource goes with its last membership
	Gone    []Evidence   // deletions that are remembered
	Meant   bool         // somebody has consented to what is Ended: it is no loss
	Dropped []resourcesync.Key
	Found   []Found  // files that were no resources and made room for some
	Fresh   []Intent // the intents that are New, by Intend: what is not in Stored has a path and no bytes
	Cursor  *Cursor
	Run     *Run      // in which it was done, with its counts: states that end are kept. nil: they are not. Settle gives a new Run its ID
	At      time.Time // when, by the mirror's clock; required beside Run
	Now     bool      // the tables follow at once

	arrived int64 // number of the arrival that Fresh is; 0: none
	later   bool  // the arrival is whole: the tables may follow later
}

// Found is a file that was in the place of a resource and no resource itself. Its state ends
// in a set of its own, so that the history names it.
type Found struct {
	Set    SetID
	URI    string // of the resource
	Path   string // where the file was
	Kept   string // where it is now
	Length resourcesync.Length
}

// Cursor is how far a set was followed; the body means nothing here.
type Cursor struct {
	Set    SetID
	Body   string
	Listed time.Time // the moment of a newer list that was read: Evidence from before is forgotten; zero if there is none
}

// Settle records an outcome and removes its intents, all or none. Dropped are
// resources that go if no set holds them. What is durable with the intents already, the
// tables have later: before anything is asked of them that it concerns.
//
// It may begin beside what is done to the files: before anything of the outcome counts, it
// calls ready, which waits until they are durable. An error of that is returned as it is,
// and nothing was recorded. A nil ready says that they are. While ready waits, nobody else
// can write, unless o is Now: then it is called first.
func (c *Catalog) Settle(ctx context.Context, o Outcome, ready func() error) error {
	if ready == nil {
		ready = func() error { return nil }
	}
	switch {
	case o.later:
		return c.settleLater(ctx, o, ready)
	case o.Now:
		if err := ready(); err != nil {
			return err
		}
	}
	c.ledger.folding.Lock()
	defer c.ledger.folding.Unlock()
	waiting, _ := c.ledger.all()
	var run int64
	var unready error
	err := c.transact(ctx, "record what was done in", func(r *recorder) (err error) {
		if err := r.enterAll(waiting); err != nil {
			return err
		}
		if o.Run != nil {
			r.at = o.At.UnixMicro()
			if run, err = r.enterRun(o.Run); err != nil {
				return err
			}
		}
		fresh := o.fresh()
		if err := r.recount(o.keys(fresh), fresh.counts(&o), func() error { return r.settle(&o, fresh, run) }); err != nil {
			return err
		}
		if o.Cursor != nil { // the members are counted by now
			if err := r.noteExtent(o.Cursor.Set, o.At.UnixMicro()); err != nil {
				return err
			}
		}
		unready = ready()
		return unready
	})
	if err := cmp.Or(unready, err); err != nil {
		return err
	}
	c.ledger.done(waiting)
	if o.Run != nil {
		o.Run.ID = run
	}
	return nil
}

// settleLater settles what is durable with the intents. If much waits for the tables then,
// they follow beside what comes next.
func (c *Catalog) settleLater(ctx context.Context, o Outcome, ready func() error) error {
	if c.ledger.long() { // they have not followed yet, or could not
		if err := c.follow(ctx); err != nil {
			return err
		}
	}
	if err := ready(); err != nil {
		return err
	}
	c.ledger.add(o)
	if c.ledger.long() {
		c.behind.Go(func() { _ = c.follow(context.WithoutCancel(ctx)) }) // the next one to be settled tries again, and tells
	}
	return nil
}

// newcomers are the resources of an outcome that had no path: nobody has to look them up.
type newcomers map[resourcesync.Key]*Resource // as in Stored; nil: without bytes

func (o *Outcome) fresh() newcomers {
	n := make(newcomers, len(o.Fresh))
	for i := range o.Fresh {
		n[o.Fresh[i].Key] = nil
	}
	for i := range o.Stored {
		if s := &o.Stored[i]; n.has(s.Key) {
			n[s.Key] = s
		}
	}
	return n
}

func (n newcomers) has(key resourcesync.Key) bool {
	_, ok := n[key]
	return ok
}

// counts are the memberships of newcomers, and their bytes.
func (n newcomers) counts(o *Outcome) map[SetID][2]int64 {
	counts := map[SetID][2]int64{}
	for i := range o.Members {
		m := &o.Members[i]
		s, ok := n[m.Key]
		if !ok {
			continue
		}
		c := counts[m.Set]
		c[0]++
		if s != nil && s.Length.Known() {
			c[1] += s.Length.Int64()
		}
		counts[m.Set] = c
	}
	return counts
}

// keys are those of what changes and was known before.
func (o *Outcome) keys(fresh newcomers) (keys []resourcesync.Key) {
	add := func(k resourcesync.Key) {
		if !fresh.has(k) {
			keys = append(keys, k)
		}
	}
	for i := range o.Stored {
		add(o.Stored[i].Key)
	}
	for i := range o.Members {
		add(o.Members[i].Key)
	}
	for i := range o.Ended {
		add(o.Ended[i].Key)
	}
	return keys
}

func (r *recorder) settle(o *Outcome, fresh newcomers, run int64) error {
	if err := r.endStates(o, run); err != nil {
		return err
	}
	if err := r.endFound(o.Found, run); err != nil {
		return err
	}
	if err := r.newcomers(o.Fresh, fresh); err != nil {
		return err
	}
	if err := r.storedMany(o.Stored, fresh); err != nil {
		return err
	}
	for _, n := range o.Noted {
		if _, err := r.exec("UPDATE resource SET verified = $2, type = $3 WHERE key = $1", n.Key[:], n.Verified, n.Type); err != nil {
			return err
		}
	}
	states := make([]state, len(o.Members))
	for i := range o.Members {
		states[i] = state{&o.Members[i], r.at, run}
	}
	if err := errors.Join(r.begin(states), r.noteEvidence(states, o.Gone)); err != nil {
		return err
	}
	for _, m := range o.Ended {
		if err := r.drop(m.Key); err != nil {
			return err
		}
	}
	for _, k := range o.Dropped {
		if err := r.drop(k); err != nil {
			return err
		}
	}
	if o.Cursor != nil {
		if _, err := r.exec(`INSERT INTO cursor (set_id, body) VALUES ($1, $2)
			ON CONFLICT (set_id) DO UPDATE SET body = excluded.body`, o.Cursor.Set, o.Cursor.Body); err != nil {
			return err
		}
		if err := r.forgetEvidence(o.Cursor.Set, o.Cursor.Listed); err != nil {
			return err
		}
	}
	if _, err := r.exec("DELETE FROM arrival"); err != nil {
		return err
	}
	_, err := r.exec("DELETE FROM intent")
	return err
}

// newcomers records resources that had no path.
func (r *recorder) newcomers(intents []Intent, fresh newcomers) error {
	args := make([]any, 0, 11*len(intents))
	for i := range intents {
		in, s := &intents[i], fresh[intents[i].Key]
		stored := s != nil
		if !stored {
			s = &Resource{}
		}
		r.sieve.add(in.Key)
		r.sieve.add(in.Fold)
		args = append(args, in.Key[:], in.URI, in.Path, in.Fold[:], stored, writeLength(s.Length), writeSHA256(s.Digests), writeDigests(s.Digests),
			s.Verified, s.Type, s.Stat)
	}
	_, err := r.eachRow("INSERT OR FAIL INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, encoding, stat) ",
		"(?,?,?,?,?,?,?,?,?,?,'',?)", "", args)
	return err
}

// storedMany records the bytes of resources that had a path before.
func (r *recorder) storedMany(stored []Resource, fresh newcomers) error {
	var all []*Resource
	for i := range stored {
		if !fresh.has(stored[i].Key) {
			all = append(all, &stored[i])
		}
	}
	args := make([]any, 0, 7*len(all))
	for _, s := range all {
		args = append(args, s.Key[:], writeLength(s.Length), writeSHA256(s.Digests), writeDigests(s.Digests), s.Verified, s.Type, s.Stat)
	}
	n, err := r.eachRow(`UPDATE OR FAIL resource SET stored = TRUE, length = column2, sha256 = column3, digests = column4, verified = column5,
		type = column6, stat = column7 FROM (`, "(?,?,?,?,?,?,?)", ") WHERE key = column1", args)
	if err != nil || n == int64(len(all)) {
		return err
	}
	for _, s := range all {
		if err := r.hasPath(s); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: bytes of %d resources, %d of which have a path", ErrState, len(all), n)
}

func (r *recorder) hasPath(s *Resource) error {
	var one int
	ok, err := names{row: r.row}.find(&one, "SELECT 1 FROM resource WHERE key = $1", s.Key[:])
	if err == nil && !ok {
		err = fmt.Errorf("%w: bytes of %q, which has no path", ErrState, s.URI)
	}
	return err
}

// state is a membership that begins or changes.
type state struct {
	*Membership
	at  int64 // microseconds
	run int64
}

// begin begins or changes memberships, in the order of their keys: so one page of the
// tables takes many of them in a row.
func (r *recorder) begin(states []state) error {
	slices.SortFunc(states, func(a, b state) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	args := make([]any, 0, 10*len(states))
	for _, s := range states {
		args = append(args, s.Set, s.Key[:], s.Changed.UnixMicro(), writeDatetime(s.LastMod), s.Due, s.Wanted, s.at, s.run, s.run, writeText(s.Remainder))
	}
	_, err := r.eachRow("INSERT INTO member (set_id, key, changed, lastmod, due, wanted, since, run, born, remainder) ", "(?,?,?,?,?,?,?,?,?,?)",
		` ON CONFLICT (set_id, key) DO UPDATE SET changed = excluded.changed, lastmod = excluded.lastmod,
		due = excluded.due, wanted = excluded.wanted, remainder = excluded.remainder`, args)
	return err
}

// drop removes a resource that no set holds.
func (r *recorder) drop(key resourcesync.Key) error {
	_, err := r.exec("DELETE FROM resource WHERE key = $1 AND NOT EXISTS (SELECT 1 FROM member WHERE key = $1)", key[:])
	return err
}

// Holders returns all memberships of the resources with these keys.
func (c *Catalog) Holders(ctx context.Context, keys []resourcesync.Key) ([]Membership, error) {
	var all []Membership
	rest := make([]resourcesync.Key, 0, len(keys))
	for _, key := range keys {
		if waits, ok := c.ledger.holders(key); ok {
			all = append(all, waits...)
		} else {
			rest = append(rest, key)
		}
	}
	for len(rest) > 0 {
		n := min(len(rest), lookupSize)
		args := make([]any, n)
		for i := range n {
			args[i] = rest[i][:]
		}
		found, err := look(ctx, c, nil, "look up memberships in", scanMembership,
			"SELECT set_id, key, changed, lastmod, due, wanted, remainder FROM member WHERE key IN ("+placeholders(n)+") ORDER BY key, set_id", args...)
		if err != nil {
			return nil, err
		}
		all, rest = append(all, found...), rest[n:]
	}
	return all, nil
}

func scanMembership(r *sql.Rows) (m Membership, err error) {
	var key []byte
	var micros int64
	var lastmod string
	var remainder sql.NullString
	if err := r.Scan(&m.Set, &key, &micros, &lastmod, &m.Due, &m.Wanted, &remainder); err != nil {
		return m, err
	}
	m.Remainder = remainder.String
	if m.Key, err = readKey(key); err != nil {
		return m, err
	}
	m.Changed = readTime(micros)
	m.LastMod, err = readDatetime(fmt.Sprintf("key %x", key), lastmod)
	return m, err
}

// The + keeps SQLite from the primary key, in which it would read the whole set.
const dueQuery = "SELECT " + resourceColumns + ", " + memberColumns + `
	FROM member m CROSS JOIN resource r
	WHERE m.due <> '' AND m.key > $1 AND +m.set_id = $3 AND r.key = m.key ORDER BY m.key LIMIT $2`

// Due yields the members of a set that are due, in ascending order of their keys.
func (c *Catalog) Due(ctx context.Context, set SetID) iter.Seq2[Resource, error] {
	return listing(ctx, c, "list what is due in", dueQuery, []byte{}, func(rows *sql.Rows, r *Resource) (any, error) {
		err := scanResource(rows, r)
		return r.Key[:], err
	}, set)
}

const contentQuery = "SELECT " + resourceColumns + `, NULL, NULL, NULL, NULL, NULL, NULL FROM resource r
	WHERE r.sha256 = $1 AND r.fold IS NOT NULL AND r.length = $2 AND r.stored
	AND NOT EXISTS (SELECT 1 FROM member m WHERE m.key = r.key AND m.due <> '')
	ORDER BY r.id LIMIT 1`

// FindContent finds a stored resource with this SHA-256 and length that is not due
// in any set; false if there is none. What waits for the tables is never due.
func (c *Catalog) FindContent(ctx context.Context, sha256 resourcesync.Digest, length int64) (Resource, bool, error) {
	if r, ok := c.ledger.content(sha256, length); ok {
		return r, true, nil
	}
	found, err := look(ctx, c, nil, "find content in", func(r *sql.Rows) (v Resource, err error) {
		return v, scanResource(r, &v)
	}, contentQuery, sha256.Sum(), length)
	if err != nil || len(found) == 0 {
		return Resource{}, false, err
	}
	return found[0], true, nil
}

// Cursor returns how far a set was followed; false if it never was.
func (c *Catalog) Cursor(ctx context.Context, set SetID) (body string, ok bool, err error) {
	err = c.read.QueryRowContext(ctx, "SELECT body FROM cursor WHERE set_id = $1", set).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, c.fail("read a cursor of", err)
	}
	return body, true, nil
}
