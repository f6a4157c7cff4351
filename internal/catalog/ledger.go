package catalog

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"instep/resourcesync"
)

// ledger holds outcomes that are durable as arrivals while the tables do not have them
// yet: rows of many commits together cost the tables a fraction of the pages. Single
// resources are found here; whoever asks for more has the tables follow first.
type ledger struct {
	folding sync.Mutex // held while the tables follow

	mu      sync.Mutex // guards the rest
	waiting []Outcome
	passed  int // resources that the tables took over
	text    int // bytes of the remainders of what waits
	rows    map[resourcesync.Key]*row
	folds   map[resourcesync.Key]bool    // of their paths
	bytes   map[content]resourcesync.Key // the last resource that has them
}

// content is bytes, as FindContent is asked for them.
type content struct {
	sha256 resourcesync.Digest
	length resourcesync.Length
}

func (r *Resource) content() content { return content{r.Digests.Get(resourcesync.SHA256), r.Length} }

// row is a resource that waits, and its memberships.
type row struct {
	resource Resource
	fold     resourcesync.Key // of its path
	states   []state
}

// The tables follow when so many resources wait: few while they are small, as then it is
// quickly done, and less is left for the end. The larger they are the more pages a
// resource costs, unless many share them.
const (
	minWaiting = 500
	maxWaiting = 16_000
	maxText    = 4 << 20 // bytes of remainders: the Source decides how long they are
)

func (l *ledger) add(o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows, l.folds, l.bytes = map[resourcesync.Key]*row{}, map[resourcesync.Key]bool{}, map[content]resourcesync.Key{}
	}
	s := state{at: o.At.UnixMicro()}
	if o.Run != nil {
		run := *o.Run // its counts are those of this outcome
		o.Run, s.run = &run, run.ID
	}
	l.waiting = append(l.waiting, o)
	fresh := o.fresh()
	for i := range o.Fresh {
		in := &o.Fresh[i]
		r := &row{resource: *fresh[in.Key], fold: in.Fold}
		r.resource.URI, r.resource.Path, r.resource.Stored = in.URI, in.Path, true
		l.rows[in.Key], l.folds[in.Fold], l.bytes[r.resource.content()] = r, true, in.Key
	}
	for i := range o.Members {
		s.Membership = &o.Members[i]
		r := l.rows[s.Key]
		r.states = append(r.states, s)
		l.text += len(s.Remainder)
	}
}

// all returns what waits, and the number of the last arrival of it.
func (l *ledger) all() (waiting []Outcome, last int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 {
		last = l.waiting[n-1].arrived
	}
	return slices.Clone(l.waiting), last
}

// done takes out what the tables have.
func (l *ledger) done(some []Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = l.waiting[len(some):]
	for i := range some {
		l.passed += len(some[i].Fresh)
		for j := range some[i].Members {
			l.text -= len(some[i].Members[j].Remainder)
		}
		for j := range some[i].Fresh {
			key := some[i].Fresh[j].Key
			if b := l.rows[key].resource.content(); l.bytes[b] == key { // else a later one has them too
				delete(l.bytes, b)
			}
			delete(l.rows, key)
			delete(l.folds, some[i].Fresh[j].Fold)
		}
	}
}

func (l *ledger) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows) == 0
}

// long reports whether so much waits that the tables should follow.
func (l *ledger) long() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rows) >= min(max(minWaiting, l.passed/4), maxWaiting) || l.text >= maxText
}

// names reports whether a path, folded, is that of a resource that waits.
func (l *ledger) names(fold resourcesync.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.folds[fold]
}

// find returns a resource that waits, as seen from set.
func (l *ledger) find(set SetID, key resourcesync.Key) (Resource, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.rows[key]
	if w == nil {
		return Resource{}, false
	}
	return w.seen(set), true
}

func (l *ledger) has(key resourcesync.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[key] != nil
}

// seen is the resource as seen from set.
func (w *row) seen(set SetID) Resource {
	r := w.resource
	for _, s := range w.states {
		if s.Set == set {
			r.Member, r.Changed, r.LastMod, r.Remainder = true, kept(s.Changed), s.LastMod, s.Remainder
		}
	}
	return r
}

// holders returns the memberships of a resource that waits.
func (l *ledger) holders(key resourcesync.Key) (all []Membership, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.rows[key]
	if w == nil {
		return nil, false
	}
	for _, s := range w.states {
		m := *s.Membership
		m.Changed = kept(m.Changed)
		all = append(all, m)
	}
	return all, true
}

// content returns a resource that waits with these bytes.
func (l *ledger) content(sha256 resourcesync.Digest, length int64) (Resource, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key, ok := l.bytes[content{sha256, resourcesync.Bytes(length)}]; ok {
		return l.rows[key].resource, true
	}
	return Resource{}, false
}

// members are the members of a set among what waits, in ascending order of their keys.
func (l *ledger) members(set SetID) (all []Resource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.rows {
		if r := w.seen(set); r.Member {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Resource) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	return all
}

// runs are the counts of what waits, by run.
func (l *ledger) runs() map[int64]Run {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[int64]Run{}
	for i := range l.waiting {
		if r := l.waiting[i].Run; r != nil {
			sum := all[r.ID]
			sum.Created, sum.Updated, sum.Deleted = sum.Created+r.Created, sum.Updated+r.Updated, sum.Deleted+r.Deleted
			all[r.ID] = sum
		}
	}
	return all
}

// versions returns the present states of what waits and is wanted, in ascending order of
// the keys.
func (l *ledger) versions(wanted func(*row, *state) bool) (all []Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.rows {
		for i := range w.states {
			s := &w.states[i]
			if !wanted(w, s) {
				continue
			}
			v := Version{Set: s.Set, Resource: w.resource, Since: readMoment(s.at), Began: s.run}
			v.Stat, v.Changed, v.LastMod, v.Remainder = "", kept(s.Changed), s.LastMod, s.Remainder // as the tables say it
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Version) int {
		return cmp.Or(bytes.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Set, b.Set))
	})
	return all
}

// withWaiting merges what waits into a listing in ascending order of keys, which may have
// some of it by the time it comes there.
func withWaiting[T any](ctx context.Context, c *Catalog, waiting func() []T, listed iter.Seq2[T, error], key func(*T) resourcesync.Key) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := c.current(ctx); err != nil {
			var none T
			yield(none, err)
			return
		}
		rest := waiting()
		for v, err := range listed {
			if err != nil {
				yield(v, err)
				return
			}
			at := key(&v)
			for len(rest) > 0 {
				next := key(&rest[0])
				before := bytes.Compare(next[:], at[:])
				if before > 0 {
					break
				}
				if before < 0 && !yield(rest[0], nil) {
					return
				}
				rest = rest[1:]
			}
			if !yield(v, nil) {
				return
			}
		}
		for _, v := range rest {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// kept is a time as the tables keep it.
func kept(t time.Time) time.Time { return readTime(t.UnixMicro()) }

// current has the tables follow for somebody who looks at more than single resources.
// Where they cannot, as in a catalog that is only read or on a full disk, what waits has
// to be added to what they say.
func (c *Catalog) current(ctx context.Context) error {
	if c.readOnly {
		return nil
	}
	if err := c.follow(ctx); !errors.Is(err, ErrFull) {
		return err
	}
	return nil
}

// follow has the tables follow all that was settled.
func (c *Catalog) follow(ctx context.Context) error {
	if c.ledger.empty() {
		return nil
	}
	c.ledger.folding.Lock()
	defer c.ledger.folding.Unlock()
	waiting, last := c.ledger.all()
	if len(waiting) == 0 {
		return nil
	}
	err := c.transact(ctx, "record what was done in", func(r *recorder) error {
		if err := r.enterAll(waiting); err != nil {
			return err
		}
		_, err := r.exec("DELETE FROM arrival WHERE id <= $1", last)
		return err
	})
	if err == nil {
		c.ledger.done(waiting)
	}
	return err
}

// resume finds what was settled before the catalog was opened.
func (c *Catalog) resume(ctx context.Context) error {
	all, err := c.arrivals(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		switch {
		case all[i].settled:
			if err := c.take(&all[i]); err != nil {
				return err
			}
		case c.readOnly:
			c.unsettled = append(c.unsettled, all[i])
		}
	}
	return c.current(ctx)
}

// take takes an arrival for settled.
func (c *Catalog) take(a *arrived) error {
	o, err := a.outcome()
	if err != nil {
		return c.fail("read what has arrived in", err)
	}
	o.arrived = a.id
	c.ledger.add(o)
	return nil
}

// enterAll records outcomes of newcomers as if they were one.
func (r *recorder) enterAll(waiting []Outcome) error {
	var all Outcome
	n := 0
	for i := range waiting {
		n += len(waiting[i].Fresh)
	}
	all.Fresh, all.Stored, all.Members = make([]Intent, 0, n), make([]Resource, 0, n), make([]Membership, 0, n)
	states := make([]state, 0, n)
	for i := range waiting {
		o := &waiting[i]
		s := state{at: o.At.UnixMicro()}
		if o.Run != nil {
			s.run = o.Run.ID
			if _, err := r.enterRun(o.Run); err != nil {
				return err
			}
		}
		for j := range o.Members {
			s.Membership = &o.Members[j]
			states = append(states, s)
		}
		all.Fresh, all.Stored, all.Members = append(all.Fresh, o.Fresh...), append(all.Stored, o.Stored...), append(all.Members, o.Members...)
	}
	// By key, so that one page of a table takes many in a row.
	slices.SortFunc(all.Fresh, func(a, b Intent) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	fresh := all.fresh()
	return r.recount(nil, fresh.counts(&all), func() error {
		if err := r.newcomers(all.Fresh, fresh); err != nil {
			return err
		}
		return errors.Join(r.begin(states), r.noteEvidence(states, nil))
	})
}

// transact is update for what does not mind that the tables are behind.
func (c *Catalog) transact(ctx context.Context, op string, do func(r *recorder) error) error {
	return c.inTransaction(ctx, op, func(tx *sql.Tx) error {
		r := c.newRecorder(ctx, tx)
		r.again = &c.again
		defer r.close()
		return do(r)
	})
}
