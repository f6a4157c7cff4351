package destination

import "iter"

// lookupBatch is how many URIs the mirror is asked for at a time.
const lookupBatch = 500

// batched hands on values in batches. It does not keep a batch that was handed on.
func batched[V any](all iter.Seq2[V, error], each func([]V) error) error {
	batch := make([]V, 0, lookupBatch)
	for v, err := range all {
		if err != nil {
			return err
		}
		if batch = append(batch, v); len(batch) == lookupBatch {
			if err := each(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return each(batch)
}

// urisOf is the URI of each of some values.
func urisOf[V any](some []V, uri func(*V) string) []string {
	uris := make([]string, len(some))
	for i := range some {
		uris[i] = uri(&some[i])
	}
	return uris
}
