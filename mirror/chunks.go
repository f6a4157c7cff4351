package mirror

import (
	"iter"

	"instep/blob"
)

// chunkSize is the number of files or resources that are looked up or changed at a time.
const chunkSize = 500

// chunks yields values in slices of up to chunkSize. The next iteration overwrites the
// slice.
func chunks[T any](values iter.Seq2[T, error]) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var chunk []T
		for value, err := range values {
			if err != nil {
				yield(nil, err)
				return
			}
			if chunk = append(chunk, value); len(chunk) == chunkSize {
				if !yield(chunk, nil) {
					return
				}
				chunk = chunk[:0]
			}
		}
		if len(chunk) > 0 {
			yield(chunk, nil)
		}
	}
}

func keysOf(infos []blob.Info) []string {
	keys := make([]string, len(infos))
	for i, info := range infos {
		keys[i] = info.Key
	}
	return keys
}
