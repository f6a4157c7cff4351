package destination

import (
	"context"
	"strconv"

	"instep/resourcesync"
)

// untouched reports whether the bytes held need not be read: nobody has touched them
// since they were stored, and what was known of them then can be compared with digests.
// In doubt they are read.
func (au *auditor) untouched(ctx context.Context, h *Held, digests resourcesync.Digests) (bool, error) {
	if !au.d.Quick {
		return false, nil
	}
	comparable := false
	for _, d := range digests {
		comparable = comparable || !h.Digests.Get(d.Algorithm()).IsZero()
	}
	if !comparable || h.Due != "" {
		return false, nil
	}
	return au.d.Mirror.Untouched(ctx, h)
}

// compareKnown compares what was known of the bytes held, when they were stored, with
// what they should be: as reading them would.
func compareKnown(h *Held, length resourcesync.Length, digests resourcesync.Digests) error {
	if length.Known() && h.Length.Known() && length != h.Length {
		return &resourcesync.MismatchError{
			What: "length", Want: strconv.FormatInt(length.Int64(), 10), Got: strconv.FormatInt(h.Length.Int64(), 10),
		}
	}
	for _, want := range digests {
		if got := h.Digests.Get(want.Algorithm()); !got.IsZero() && got != want {
			return &resourcesync.MismatchError{What: string(want.Algorithm()), Want: want.String(), Got: got.String()}
		}
	}
	return nil
}
