package catalog

import (
	"context"
	"fmt"
	"time"

	"instep/resourcesync"
)

// Adoption takes over a publication that was made without this catalog, in one transaction,
// so that the catalog has all of it or nothing.
type Adoption struct {
	rec  *recorder
	last int64 // the latest moment there is, in microseconds
}

// Adopt calls fill to record the content of a foreign publication in sets that were
// never published and have no resources; for other sets it returns ErrState. The change
// log continues with the number after+1, at a moment later than every moment that fill
// uses. The settings are stored in the same transaction.
func (c *Publisher) Adopt(ctx context.Context, after int64, settings map[string]string, fill func(*Adoption) error) error {
	return c.transact(ctx, "adopt a publication in the catalog", func(r *recorder) {
		if r.exists("(SELECT 1 FROM publication WHERE state <> $1 UNION ALL SELECT 1 FROM member UNION ALL SELECT 1 FROM change)", begun) {
			r.stop(fmt.Errorf("%w: the catalog is not empty", ErrState))
		}
		if after > 0 { // the numbers up to after count as used
			r.exec("INSERT INTO change (seq, set_id, datetime, change, uri, lastmod, digests, type) SELECT $1, id, 0, '', '', '', '', '' FROM sets LIMIT 1", after)
			r.exec("DELETE FROM change WHERE seq = $1", after)
		}
		if r.err != nil {
			return
		}
		a := &Adoption{rec: r}
		if err := fill(a); err != nil {
			r.err = err
		}
		a.settleSpellings()
		r.keepAll(settings)
		r.keepNumber(floorSetting, a.last+1)
	})
}

// Hold stores ch as the state of a resource in the set at ch.Datetime, without logging
// a change. It ignores the deletion of a resource that is not a member.
func (a *Adoption) Hold(set SetID, ch Change) error {
	id := a.rec.rowOf(ch.URI)
	member := a.rec.exists("member WHERE set_id = $1 AND resource = $2", set, id)
	switch {
	case ch.Change == resourcesync.Deleted && !member:
		return a.rec.err
	case ch.Change == resourcesync.Deleted:
	case member:
		ch.Change = resourcesync.Updated
	default:
		ch.Change = resourcesync.Created
	}
	a.at(set, ch.Datetime)
	a.rec.record(&ch)
	a.rec.count(set, a.rec.members, a.rec.bytes)
	return a.rec.err
}

// Log adds a change to the log and returns its number. Its Datetime must not be before that
// of the change logged before it.
func (a *Adoption) Log(set SetID, ch Change) (seq int64, err error) {
	a.at(set, ch.Datetime)
	seqs := []int64{0}
	a.rec.log([]Change{ch}, seqs)
	return seqs[0], a.rec.err
}

func (a *Adoption) at(set SetID, t time.Time) {
	a.rec.set, a.rec.at, a.rec.members, a.rec.bytes = set, t.UnixMicro(), 0, 0
	a.Reserve(t)
}

// Reserve makes every change that is recorded from now on later than t.
func (a *Adoption) Reserve(t time.Time) { a.last = max(a.last, t.UnixMicro()) }

// Publish stores body as the last publication of a set, already written out under this
// id, with the documents and items of f.
func (a *Adoption) Publish(set SetID, id int64, body string, f Finished) error {
	a.rec.exec("INSERT INTO publication (id, set_id, made, state, body) VALUES ($1, $2, $3, $4, $5)", id, set, f.At.UnixMicro(), done, body)
	a.rec.keepDocuments(id, f)
	return a.rec.err
}
