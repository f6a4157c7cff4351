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
	return c.transact(ctx, "adopt a publication in the catalog", func(r *recorder) error {
		used, _, err := value[bool](r, "SELECT EXISTS (SELECT 1 FROM publication WHERE state <> $1) OR EXISTS (SELECT 1 FROM member) OR EXISTS (SELECT 1 FROM change)", begun)
		if err == nil && used {
			err = fmt.Errorf("%w: the catalog is not empty", ErrState)
		}
		if err != nil {
			return err
		}
		a := &Adoption{rec: r}
		if err := a.skip(after); err != nil {
			return err
		}
		if err := fill(a); err != nil {
			return err
		}
		if err := a.settleSpellings(); err != nil {
			return err
		}
		if err := r.keepAll(settings); err != nil {
			return err
		}
		return r.keepNumber(floorSetting, a.last+1)
	})
}

// skip marks the change numbers up to n as used.
func (a *Adoption) skip(n int64) error {
	if n <= 0 {
		return nil
	}
	_, err := a.rec.exec(`INSERT INTO change (seq, set_id, datetime, change, uri, lastmod, digests, type) SELECT $1, id, 0, '', '', '', '', '' FROM sets LIMIT 1`, n)
	if err == nil {
		_, err = a.rec.exec("DELETE FROM change WHERE seq = $1", n)
	}
	return err
}

// Hold stores ch as the state of a resource in the set at ch.Datetime, without logging
// a change. It ignores the deletion of a resource that is not a member.
func (a *Adoption) Hold(set SetID, ch Change) error {
	id, err := a.rec.number(ch.URI)
	if err != nil {
		return err
	}
	_, member, err := value[int](a.rec, "SELECT 1 FROM member WHERE set_id = $1 AND resource = $2", set, id)
	if err != nil {
		return err
	}
	switch {
	case ch.Change == resourcesync.Deleted && !member:
		return nil
	case ch.Change == resourcesync.Deleted:
	case member:
		ch.Change = resourcesync.Updated
	default:
		ch.Change = resourcesync.Created
	}
	a.at(set, ch.Datetime)
	if err = a.rec.record(&ch); err == nil {
		err = a.rec.count(set, a.rec.members, a.rec.bytes)
	}
	return err
}

// Log adds a change to the log and returns its number. Its Datetime must not be before that
// of the change logged before it.
func (a *Adoption) Log(set SetID, ch Change) (seq int64, err error) {
	a.at(set, ch.Datetime)
	seqs := []int64{0}
	err = a.rec.log([]Change{ch}, seqs)
	return seqs[0], err
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
	_, err := a.rec.exec("INSERT INTO publication (id, set_id, made, state, body) VALUES ($1, $2, $3, $4, $5)", id, set, f.At.UnixMicro(), done, body)
	if err != nil {
		return err
	}
	return a.rec.keepDocuments(id, f)
}
