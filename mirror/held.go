package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

func heldOf(r *catalog.Resource) (destination.Held, error) {
	h := heldState(r)
	if r.Due == "" {
		return h, nil
	}
	var err error
	h.Wanted, err = decodeWanted(r.URI, r.Wanted)
	return h, err
}

// heldState is like heldOf, but does not set the field Wanted, whose stored form may be
// damaged.
func heldState(r *catalog.Resource) destination.Held {
	h := destination.Held{
		URI: r.URI, Path: r.Path, Stored: r.Stored, Length: r.Length, Digests: r.Digests, Type: r.Type, Verified: r.Verified,
		Member: r.Member, LastMod: r.LastMod, Changed: r.Changed, Due: r.Due,
		Stamp: r.Stat, Remainder: harvest.NewRemainder(r.Remainder),
	}
	s, _ := readStamp(r.Stat)
	h.Proof = s.proof
	return h
}

// wanted is the JSON form in which the catalog stores destination.Held.Wanted.
type wanted struct {
	LastMod   resourcesync.Datetime `json:"lastmod,omitzero"`
	Length    resourcesync.Length   `json:"length,omitzero"`
	Digests   resourcesync.Digests  `json:"hash,omitempty"`
	Type      string                `json:"type,omitempty"`
	Encoding  string                `json:"encoding,omitempty"`
	Changed   time.Time             `json:"changed"`
	Remainder harvest.Remainder     `json:"remainder,omitzero"`
}

func encodeWanted(w *harvest.Resource) (string, error) {
	text, err := json.Marshal(wanted{w.LastMod, w.Length, w.Digests, w.Type, w.Encoding, w.Changed.UTC(), w.Remainder})
	if err != nil {
		return "", fmt.Errorf("the stored statement of the Source about %q: %w", w.URI, err)
	}
	return string(text), nil
}

// statedOf is like wantedOf, except for a resource in KeptSet: for that it omits the
// length, the digests and the type, since the kept bytes may not be the last ones that
// the Source stated.
func (m *Mirror) statedOf(ctx context.Context, r *catalog.Resource) (string, error) {
	kept, err := m.isKept(ctx, r.URI)
	if err != nil {
		return "", err
	}
	stated := *r
	if kept {
		stated.Type, stated.Verified = "", false
	}
	return wantedOf(&stated)
}

// wantedOf returns the last statement of the Source about a resource as JSON, with
// which the resource can be fetched again. It omits digests that only the mirror has
// computed, because a Source that states no digest may send other bytes each time.
func wantedOf(r *catalog.Resource) (string, error) {
	w := harvest.Resource{URI: r.URI, LastMod: r.LastMod, Type: r.Type, Changed: r.Changed, Remainder: harvest.NewRemainder(r.Remainder)}
	if r.Verified {
		w.Length, w.Digests = r.Length, r.Digests
	}
	if s, ok := readStamp(r.Stat); ok {
		w.Digests = slices.DeleteFunc(slices.Clone(w.Digests), func(d resourcesync.Digest) bool { return d.Algorithm() != s.proof })
	}
	said, err := w.Remainder.Parse()
	if err != nil {
		return "", fmt.Errorf("the record of %q in the catalog: %w", r.URI, err)
	}
	w.Encoding = said.Encoding
	return encodeWanted(&w)
}

func decodeWanted(uri, text string) (harvest.Resource, error) {
	var w wanted
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return harvest.Resource{}, fmt.Errorf("the record of %q in the catalog: %w", uri, err)
	}
	return harvest.Resource{
		URI: uri, LastMod: w.LastMod, Length: w.Length, Digests: w.Digests, Type: w.Type, Encoding: w.Encoding, Changed: w.Changed, Remainder: w.Remainder,
	}, nil
}

// micros rounds a time down to microseconds, the unit in which the catalog stores times.
func micros(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// differs compares the length and the digests of bytes with those that the Source
// states. The result how describes the first difference, or is "" if there is none. The
// result proof reports whether the Source states a length or digest that could be
// compared.
func differs(w *harvest.Resource, length int64, ds resourcesync.Digests) (how string, proof bool) {
	if w.Length.Known() {
		if w.Length.Int64() != length {
			return fmt.Sprintf("expected %d bytes, found %d", w.Length.Int64(), length), false
		}
		proof = true
	}
	for _, want := range w.Digests {
		have := ds.Get(want.Algorithm())
		if have.IsZero() {
			continue
		}
		if have != want {
			return fmt.Sprintf("expected %s, found %s", want, have), false
		}
		proof = true
	}
	return "", proof
}
