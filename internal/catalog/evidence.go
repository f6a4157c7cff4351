package catalog

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"instep/resourcesync"
)

// Evidence is what a change was the last to say of a URI in a set. The membership tells
// what a list said, but not when the bytes came.
type Evidence struct {
	Set    SetID
	Key    resourcesync.Key
	Told   bool      // by a change; else by a list, and Came is known
	Gone   bool      // that it was deleted
	Moment time.Time // of the change; kept in microseconds
	Until  time.Time // of a change whose time is unknown: at the latest then; else zero
	Came   time.Time // when the bytes came, by the clock of their server; zero if that is unknown
}

// Evidence returns what changes were the last to say of these URIs in a set: of a member
// whose Changed is another moment a list has said more since.
func (c *Catalog) Evidence(ctx context.Context, set SetID, keys []resourcesync.Key) (map[resourcesync.Key]Evidence, error) {
	found := map[resourcesync.Key]Evidence{}
	rest := make([]resourcesync.Key, 0, len(keys))
	for _, key := range keys {
		if waits, ok := c.ledger.evidence(set, key); !ok {
			rest = append(rest, key)
		} else if waits.Key == key {
			found[key] = waits
		}
	}
	for some := range slices.Chunk(rest, lookupSize) {
		args := []any{set}
		for i := range some {
			args = append(args, some[i][:])
		}
		rows, err := look(ctx, c, nil, "look up evidence in", scanEvidence,
			"SELECT set_id, key, told, gone, moment, until, came FROM evidence WHERE set_id = ? AND key IN ("+placeholders(len(some))+")", args...)
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			found[e.Key] = e
		}
	}
	return found, nil
}

func scanEvidence(r *sql.Rows) (e Evidence, err error) {
	var key []byte
	var moment, until, came int64
	if err := r.Scan(&e.Set, &key, &e.Told, &e.Gone, &moment, &until, &came); err != nil {
		return e, err
	}
	e.Moment = readTime(moment)
	e.Until, e.Came = readMicros(until), readMicros(came)
	e.Key, err = readKey(key)
	return e, err
}

// writeMicros is a time in microseconds since 1970, and 0 for the zero time.
func writeMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func readMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return readTime(micros)
}

// evidence returns what is to be kept of a resource that waits; the zero Evidence if there
// is nothing, and false if no membership of it in the set waits.
func (l *ledger) evidence(set SetID, key resourcesync.Key) (e Evidence, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.rows[key]
	if w == nil {
		return e, false
	}
	for _, s := range w.states {
		if s.Set != set {
			continue
		}
		if ok = true; s.tells() {
			e = s.evidence()
		}
	}
	return e, ok
}

func (m *Membership) evidence() Evidence {
	return Evidence{Set: m.Set, Key: m.Key, Told: m.Told, Moment: kept(m.Changed), Until: readMicros(writeMicros(m.Until)), Came: readMicros(writeMicros(m.Came))}
}

// tells reports whether there is more to keep of a state than the membership has: a change
// said so, or a list that was written so soon after the resource that only the moment at
// which the bytes came tells them from those of before.
func (m *Membership) tells() bool {
	return m.Told || !m.Came.IsZero() && m.Changed.Before(m.LastMod.Time().Add(soon))
}

// soon is after how long nobody takes two moments of whole seconds for one.
const soon = 2 * time.Second

// noteEvidence records what changes have said, and of lists what the memberships don't tell.
func (r *recorder) noteEvidence(states []state, gone []Evidence) error {
	all := slices.Clone(gone)
	for _, s := range states {
		if s.tells() {
			all = append(all, s.evidence())
		}
	}
	args := make([]any, 0, 7*len(all))
	for i := range all {
		e := &all[i]
		args = append(args, e.Set, e.Key[:], e.Told, e.Gone, e.Moment.UnixMicro(), writeMicros(e.Until), writeMicros(e.Came))
	}
	_, err := r.eachRow("INSERT INTO evidence (set_id, key, told, gone, moment, until, came) ", "(?,?,?,?,?,?,?)",
		" ON CONFLICT (set_id, key) DO UPDATE SET told = excluded.told, gone = excluded.gone, moment = excluded.moment, until = excluded.until, came = excluded.came", args)
	return err
}

// forgetEvidence forgets what changes have said before the moment of a list that was read.
func (r *recorder) forgetEvidence(set SetID, listed time.Time) error {
	if listed.IsZero() {
		return nil
	}
	_, err := r.exec("DELETE FROM evidence WHERE set_id = $1 AND moment < $2", set, listed.UnixMicro())
	return err
}
