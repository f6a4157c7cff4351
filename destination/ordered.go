package destination

import (
	"encoding/binary"
	"iter"

	"instep/internal/spool"
	"instep/resourcesync"
)

// ordered are actions that are read back in the order of the keys of their URIs: the order
// of the rows of a mirror. A Source lists its resources in any order, and a mirror of a
// million takes three times as long to write rows at random.
type ordered struct {
	log  *spool.Log[Action]
	keys *spool.Keys // each with the place of its action in log at its end
}

// orderedMemory is how many bytes of keys are sorted in memory.
const orderedMemory = 4 << 20

// placeLength is the length of a place at the end of a key, after a NUL.
const placeLength = 1 + 8 + 4

func newOrdered(dir string) *ordered {
	return &ordered{spool.NewLog[Action](dir), spool.NewKeys(dir, orderedMemory)}
}

func (o *ordered) add(a Action) error {
	p, err := o.log.AppendAt(a)
	if err != nil {
		return err
	}
	key := append([]byte(resourcesync.KeyOf(a.Want.URI)), 0)
	key = binary.BigEndian.AppendUint64(key, uint64(p.Offset))
	key = binary.BigEndian.AppendUint32(key, uint32(p.Length))
	return o.keys.Add(spool.Key(key))
}

// all yields the actions. It can be ranged over any number of times.
func (o *ordered) all() iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		if o == nil {
			return
		}
		for key, err := range o.keys.Sorted() {
			var a Action
			if err == nil {
				place := []byte(key[len(key)-placeLength+1:])
				a, err = o.log.At(spool.Place{Offset: int64(binary.BigEndian.Uint64(place)), Length: int32(binary.BigEndian.Uint32(place[8:]))})
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

func (o *ordered) close() {
	if o != nil {
		o.log.Close()
		o.keys.Close()
	}
}
