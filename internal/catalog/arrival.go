package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"instep/resourcesync"
)

// arrival is what a commit brings that had no path before, as it is kept.
type arrival struct {
	Whole bool       `json:"whole"` // the outcome is this and nothing else, and all of it is here
	At    int64      `json:"at"`    // in microseconds since 1970
	Run   int64      `json:"run"`   // 0: none
	New   []newcomer `json:"new"`
}

// newcomer is a resource that had no path. What follows Taken is there if the arrival is
// Whole.
type newcomer struct {
	URI    string `json:"uri"`
	Path   string `json:"path"`
	Fold   []byte `json:"fold"`
	Kept   string `json:"kept,omitempty"`
	Length int64  `json:"length"` // -1: unknown
	SHA256 []byte `json:"sha256,omitempty"`
	Taken  string `json:"taken,omitempty"`

	Digests  string     `json:"digests,omitempty"`
	Verified bool       `json:"verified,omitempty"`
	Type     string     `json:"type,omitempty"`
	Stat     string     `json:"stat,omitempty"`
	Members  []newState `json:"members,omitempty"`
}

// newState is a membership that begins.
type newState struct {
	Set     SetID  `json:"set"`
	Changed int64  `json:"changed"` // in microseconds since 1970
	LastMod string `json:"lastmod,omitempty"`
	Told    bool   `json:"told,omitempty"`
	Until   int64  `json:"until,omitempty"` // in microseconds since 1970
	Came    int64  `json:"came,omitempty"`  // likewise

	Remainder string `json:"remainder,omitempty"`
}

// whole reports whether an outcome is that of newcomers with their bytes and nothing else.
func (o *Outcome) whole() bool {
	if o.Now || o.Cursor != nil || len(o.Noted)+len(o.Ended)+len(o.Gone)+len(o.Dropped) > 0 || len(o.Stored) != len(o.Fresh) {
		return false
	}
	fresh := o.fresh()
	for i := range o.Fresh {
		if in := &o.Fresh[i]; fresh[in.Key] == nil || in.Kept != "" || in.Taken != "" {
			return false
		}
	}
	for i := range o.Members {
		if m := &o.Members[i]; !fresh.has(m.Key) || m.Due != "" || m.Wanted != "" {
			return false
		}
	}
	return len(o.Fresh) > 0
}

// arrival is what is kept of an outcome.
func (o *Outcome) arrival() *arrival {
	a := &arrival{Whole: o.whole(), At: o.At.UnixMicro(), New: make([]newcomer, len(o.Fresh))}
	if o.Run != nil {
		a.Run = o.Run.ID
	}
	index := make(map[resourcesync.Key]int, len(o.Fresh))
	for i := range o.Fresh {
		in := &o.Fresh[i]
		index[in.Key] = i
		a.New[i] = newcomer{
			URI: in.URI, Path: in.Path, Fold: in.Fold[:], Kept: in.Kept, Length: in.Length.Int64(), SHA256: writeSum(in.SHA256), Taken: in.Taken,
		}
	}
	if !a.Whole {
		return a
	}
	for i := range o.Stored {
		s := &o.Stored[i]
		n := &a.New[index[s.Key]]
		n.Digests, n.Verified, n.Type, n.Stat = writeDigests(s.Digests), s.Verified, s.Type, s.Stat
	}
	for i := range o.Members {
		m := &o.Members[i]
		n := &a.New[index[m.Key]]
		n.Members = append(n.Members, newState{m.Set, m.Changed.UnixMicro(), writeDatetime(m.LastMod), m.Told, writeMicros(m.Until), writeMicros(m.Came), m.Remainder})
	}
	return a
}

// outcome is what became of an arrival that is Whole.
func (a *arrival) outcome() (o Outcome, err error) {
	o.At = readTime(a.At)
	for i := range a.New {
		n := &a.New[i]
		in, err := n.intent()
		if err != nil {
			return o, err
		}
		s := Resource{Key: in.Key, URI: n.URI, Length: in.Length, Verified: n.Verified, Type: n.Type, Stat: n.Stat}
		if s.Digests, err = readDigests(n.URI, n.Digests, n.SHA256); err != nil {
			return o, err
		}
		o.Fresh, o.Stored = append(o.Fresh, in), append(o.Stored, s)
		for _, state := range n.Members {
			m := Membership{Set: state.Set, Key: in.Key, Changed: time.UnixMicro(state.Changed), Told: state.Told, Until: readMicros(state.Until), Came: readMicros(state.Came), Remainder: state.Remainder}
			if m.LastMod, err = readDatetime(n.URI, state.LastMod); err != nil {
				return o, err
			}
			o.Members = append(o.Members, m)
		}
	}
	if a.Run != 0 {
		o.Run = &Run{ID: a.Run, Created: int64(len(o.Members))}
	}
	return o, nil
}

func (n *newcomer) intent() (in Intent, err error) {
	in = Intent{New: true, Key: resourcesync.KeyOf(n.URI), URI: n.URI, Path: n.Path, Kept: n.Kept, Taken: n.Taken}
	if in.Fold, err = readKey(n.Fold); err != nil {
		return in, err
	}
	if n.Length >= 0 {
		in.Length = resourcesync.Bytes(n.Length)
	}
	in.SHA256, err = readSHA256(n.SHA256)
	return in, err
}

// readKey reads the key of a row.
func readKey(b []byte) (key resourcesync.Key, err error) {
	if len(b) != len(key) {
		return key, fmt.Errorf("%w: expected a key of %d bytes, found %x; %s", ErrDamaged, len(key), b, hint)
	}
	return resourcesync.Key(b), nil
}

// arrive records the newcomers of o, and that those before are settled.
func (r *recorder) arrive(o *Outcome, before int64) error {
	if _, err := r.exec("UPDATE arrival SET settled = TRUE WHERE id <= $1 AND NOT settled", before); err != nil {
		return err
	}
	if len(o.Fresh) == 0 {
		return nil
	}
	a := o.arrival()
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	res, err := r.run("INSERT INTO arrival (body, settled) VALUES ($1, FALSE)", string(body))
	if err == nil {
		o.arrived, err = res.LastInsertId()
		o.later = a.Whole
	}
	return err
}

// arrived is an arrival with its number.
type arrived struct {
	id      int64
	settled bool
	arrival
}

// arrivals returns all of them, in their order.
func (c *Catalog) arrivals(ctx context.Context) ([]arrived, error) {
	const op = "read what has arrived in"
	r, err := c.read.QueryContext(ctx, "SELECT id, body, settled FROM arrival ORDER BY id")
	if err != nil {
		return nil, c.fail(op, err)
	}
	return scanAll(c, op, r, nil, func(r *sql.Rows) (a arrived, err error) {
		var body string
		if err := r.Scan(&a.id, &body, &a.settled); err != nil {
			return a, err
		}
		if err := json.Unmarshal([]byte(body), &a.arrival); err != nil {
			return a, fmt.Errorf("%w: what has arrived (%d): %w; %s", ErrDamaged, a.id, err, hint)
		}
		return a, nil
	})
}

// begun returns the arrivals that are not settled. A catalog that is only read knows those
// that there were when it was opened: what another process has brought since is not
// looked at.
func (c *Catalog) begun(ctx context.Context) ([]arrived, error) {
	if c.readOnly {
		return c.unsettled, nil
	}
	all, err := c.arrivals(ctx)
	return slices.DeleteFunc(all, func(a arrived) bool { return a.settled }), err
}

// Complete settles the commit whose intents are whole, as far as its files came. A catalog
// that is only read counts them as settled.
func (c *Catalog) Complete(ctx context.Context, came func(resourcesync.Key) bool) error {
	all, err := c.begun(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].New = slices.DeleteFunc(slices.Clone(all[i].New), func(n newcomer) bool { return !came(resourcesync.KeyOf(n.URI)) })
	}
	if !c.readOnly {
		if err := c.transact(ctx, "record what was done in", func(r *recorder) error { return r.complete(all) }); err != nil {
			return err
		}
	}
	for i := range all {
		if len(all[i].New) == 0 {
			continue
		}
		if err := c.take(&all[i]); err != nil {
			return err
		}
	}
	return c.current(ctx)
}

// complete marks arrivals as settled, with what is left of them.
func (r *recorder) complete(all []arrived) error {
	for i := range all {
		body, err := json.Marshal(&all[i].arrival)
		if err != nil {
			return err
		}
		query, args := "UPDATE arrival SET settled = TRUE, body = $2 WHERE id = $1", []any{all[i].id, string(body)}
		if len(all[i].New) == 0 {
			query, args = "DELETE FROM arrival WHERE id = $1", args[:1]
		}
		if _, err := r.exec(query, args...); err != nil {
			return err
		}
	}
	return nil
}
