package mirror

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// heldOf converts a row of the catalog; it returns the zero Held for the zero Resource.
func heldOf(r *catalog.Resource) (destination.Held, error) {
	h := heldState(r)
	if r.Due == "" {
		return h, nil
	}
	var err error
	h.Wanted, err = decodeWanted(r.URI, r.Wanted)
	return h, err
}

// heldState is like heldOf, but without Wanted.
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

// wanted is the stored form of a destination.Wanted.
type wanted struct {
	LastMod  string    `json:"lastmod,omitempty"`
	Length   *int64    `json:"length,omitempty"`
	Digests  string    `json:"hash,omitempty"`
	Type     string    `json:"type,omitempty"`
	Encoding string    `json:"encoding,omitempty"`
	Changed  time.Time `json:"changed"`

	Remainder harvest.Remainder `json:"remainder,omitzero"`
}

func encodeWanted(w *harvest.Resource) (string, error) {
	kept := wanted{Digests: w.Digests.String(), Type: w.Type, Encoding: w.Encoding, Changed: w.Changed.UTC(), Remainder: w.Remainder}
	if !w.LastMod.IsZero() {
		kept.LastMod = w.LastMod.String()
	}
	if w.Length.Known() {
		n := w.Length.Int64()
		kept.Length = &n
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return "", fmt.Errorf("the stored statement of the Source about %q: %w", w.URI, err)
	}
	return string(text), nil
}

// wantedOf returns what to fetch when the stored bytes are lost. It contains only
// statements of the Source: if the Source gives no digests it may serve other bytes
// each time.
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
	fail := func(err error) (harvest.Resource, error) {
		return harvest.Resource{}, fmt.Errorf("the record of %q in the catalog: %w", uri, err)
	}
	var kept wanted
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return fail(err)
	}
	w := harvest.Resource{URI: uri, Type: kept.Type, Encoding: kept.Encoding, Changed: kept.Changed, Remainder: kept.Remainder}
	var err error
	if kept.LastMod != "" {
		if w.LastMod, err = resourcesync.ParseDatetime(kept.LastMod); err != nil {
			return fail(err)
		}
	}
	if kept.Digests != "" {
		if w.Digests, err = resourcesync.ParseDigests(kept.Digests); err != nil {
			return fail(err)
		}
	}
	if kept.Length != nil {
		w.Length = resourcesync.Bytes(*kept.Length)
	}
	return w, nil
}

// micros returns a time in the precision of the catalog.
func micros(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// differs returns in which way bytes with this length and these digests differ from w;
// "" if they do not. proof reports whether a length or digest of w was compared.
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
