package catalog

import (
	"context"
	"fmt"
	"time"

	"instep/resourcesync"
)

// Adoption records a publication that was made without this catalog. It is one
// transaction, so the catalog gets all of the publication or nothing.
type Adoption struct {
	rec    *recorder
	latest int64 // the latest time of a change or document in the publication, in microseconds since 1970
}

// Adopt calls fill, which records a publication that was made without this catalog. It
// returns ErrState if the catalog already has a publication, a member or a change. The
// first change after the adoption gets the number lastSeq+1, and a Datetime later than
// all times that fill records. The settings are stored in the same transaction.
func (c *Publisher) Adopt(ctx context.Context, lastSeq int64, settings map[string]string, fill func(*Adoption) error) error {
	return c.transact(ctx, "adopt a publication in the catalog", func(r *recorder) {
		if r.exists("(SELECT 1 FROM publication WHERE state <> $1 UNION ALL SELECT 1 FROM member UNION ALL SELECT 1 FROM change)", begun) {
			r.stop(fmt.Errorf("%w: the catalog is not empty", ErrState))
		}
		if lastSeq > 0 { // this row makes SQLite give the number lastSeq+1 to the next change
			r.exec("INSERT INTO change (seq, set_id, datetime, change, uri, lastmod, digests, type) SELECT $1, id, 0, '', '', '', '', '' FROM sets LIMIT 1", lastSeq)
			r.exec("DELETE FROM change WHERE seq = $1", lastSeq)
		}
		if r.err != nil {
			return
		}
		a := &Adoption{rec: r}
		if err := fill(a); err != nil {
			r.err = err
		}
		a.dropSpellings()
		r.storeSettings(settings)
		r.storeNumber(floorSetting, a.latest+1)
	})
}

// Hold records the state of a resource in a set after a change, but does not write the
// change to the log. It ignores the deletion of a resource that is not a member.
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
	a.startChange(set, ch.Datetime)
	a.rec.record(&ch)
	a.rec.count(set, a.rec.members, a.rec.bytes)
	return a.rec.err
}

// Log adds a change to the log and returns its number. The Datetime of the change must
// not be before that of the previous one.
func (a *Adoption) Log(set SetID, ch Change) (seq int64, err error) {
	a.startChange(set, ch.Datetime)
	seqs := []int64{0}
	a.rec.log([]Change{ch}, seqs)
	return seqs[0], a.rec.err
}

func (a *Adoption) startChange(set SetID, moment time.Time) {
	a.rec.set, a.rec.moment, a.rec.members, a.rec.bytes = set, moment.UnixMicro(), 0, 0
	a.Reserve(moment)
}

// Reserve makes sure that every change after the adoption has a Datetime later than t.
func (a *Adoption) Reserve(t time.Time) { a.latest = max(a.latest, t.UnixMicro()) }

// Publish records the publication with the given id as the last one of a set, with its
// documents and items. The publication was already written to the bucket.
func (a *Adoption) Publish(set SetID, id int64, body string, f Finished) error {
	a.rec.exec("INSERT INTO publication (id, set_id, made, state, body) VALUES ($1, $2, $3, $4, $5)", id, set, f.At.UnixMicro(), done, body)
	a.rec.storeDocuments(id, f)
	return a.rec.err
}
