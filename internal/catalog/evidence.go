package catalog

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// Evidence is what a change was the last to say of a URI in a set. The membership tells
// what a list said, but not when the bytes came.
type Evidence struct {
	Set    SetID
	URI    string
	Told   bool      // by a change; else by a list, and Came is known
	Gone   bool      // that it was deleted
	Moment time.Time // of the change; kept in microseconds
	Until  time.Time // of a change whose time is unknown: at the latest then; else zero
	Came   time.Time // when the bytes came, by the clock of their server; zero if that is unknown
}

// Evidence returns what changes were the last to say of these URIs in a set: of a member
// whose Changed is another moment a list has said more since.
func (c *Mirror) Evidence(ctx context.Context, set SetID, uris []string) (map[string]Evidence, error) {
	found := map[string]Evidence{}
	for some := range slices.Chunk(uris, lookupSize) {
		of := make(map[Sum]string, len(some))
		args := []any{set}
		for _, uri := range some {
			key := SumOf(uri)
			of[key], args = uri, append(args, key[:])
		}
		rows, err := rows(ctx, c.db, "look up evidence in", func(r *sql.Rows) (e Evidence, err error) {
			var key []byte
			var moment, until, came int64
			if err := r.Scan(&e.Set, &key, &e.Told, &e.Gone, &moment, &until, &came); err != nil {
				return e, err
			}
			e.Moment = readTime(moment)
			e.Until, e.Came = readMicros(until), readMicros(came)
			e.URI = of[Sum(key)]
			return e, nil
		}, "SELECT set_id, key, told, gone, moment, until, came FROM evidence WHERE set_id = ? AND key IN ("+placeholders(len(some))+")", args...)
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			found[e.URI] = e
		}
	}
	return found, nil
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

func (m *Membership) evidence() Evidence {
	return Evidence{Set: m.Set, URI: m.URI, Told: m.Told, Moment: m.Changed, Until: m.Until, Came: m.Came}
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
func (r *recorder) noteEvidence(states []Membership, gone []Evidence) error {
	all := slices.Clone(gone)
	for i := range states {
		if s := &states[i]; s.tells() {
			all = append(all, s.evidence())
		}
	}
	args := make([]any, 0, 7*len(all))
	for i := range all {
		e := &all[i]
		key := SumOf(e.URI)
		args = append(args, e.Set, key[:], e.Told, e.Gone, e.Moment.UnixMicro(), writeMicros(e.Until), writeMicros(e.Came))
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
