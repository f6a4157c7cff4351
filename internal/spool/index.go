package spool

import (
	"encoding/binary"
	"hash/maphash"
)

// Index maps texts, its keys, to places of records in a Log: up to a number of keys in memory, beyond
// it in a hash table in a temporary file. There each call reads one bucket of the table and
// Set writes one slot. It is not safe for concurrent use.
type Index struct {
	scratch scratch
	most    int               // keys in memory
	few     map[keyHash]Place // all of them, as long as there is no file
	seeds   [2]maphash.Seed   // of keyHash
	buckets int64             // number of buckets in the file, a power of two
	used    int64             // slots of the file, deleted keys included
	live    int64             // keys
	bucket  [bucketSize]byte  // the one that was read last
	closed  bool
}

// keyHash takes the place of a key. It is seeded, so a Source can't choose keys with the same one.
type keyHash [2]uint64

// A slot holds a hash, a place and whether there is a key at that place: none yet, one, or one
// that was deleted.
const (
	slotSize    = 32
	bucketSlots = 32
	bucketSize  = slotSize * bucketSlots

	slotState = 28 // where in a slot one of these is
)

const (
	slotFree = iota
	slotLive
	slotDeleted
)

// NewIndex returns an empty index that holds up to most keys in memory (default 65,536), and the
// others in dir (default os.TempDir).
func NewIndex(dir string, most int) *Index {
	if most <= 0 {
		most = 1 << 16
	}
	return &Index{scratch: newScratch(dir), most: most, few: map[keyHash]Place{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (x *Index) hash(k string) keyHash {
	return keyHash{maphash.String(x.seeds[0], k), maphash.String(x.seeds[1], k)}
}

// Len is the number of keys.
func (x *Index) Len() int64 { return x.live }

// Get returns the place of a key; ok is false if it has none.
func (x *Index) Get(k string) (p Place, ok bool, err error) {
	if x.closed {
		return p, false, errClosed
	}
	h := x.hash(k)
	if x.few != nil {
		p, ok = x.few[h]
		return p, ok, nil
	}
	slot, _, err := x.find(h)
	if err != nil || slot[slotState] != slotLive {
		return p, false, err
	}
	return placeIn(slot), true, nil
}

// Set gives a key a place.
func (x *Index) Set(k string, p Place) error {
	if x.closed {
		return errClosed
	}
	h := x.hash(k)
	if x.few != nil {
		if _, again := x.few[h]; again || len(x.few) < x.most {
			x.few[h] = p
			x.live = int64(len(x.few))
			return nil
		}
		if err := x.spill(); err != nil {
			return err
		}
	}
	return x.set(h, p)
}

// Delete takes a key out.
func (x *Index) Delete(k string) error {
	if x.closed {
		return errClosed
	}
	h := x.hash(k)
	if x.few != nil {
		delete(x.few, h)
		x.live = int64(len(x.few))
		return nil
	}
	slot, at, err := x.find(h)
	if err != nil || slot[slotState] != slotLive {
		return err
	}
	slot[slotState] = slotDeleted
	if err := x.scratch.writeAt(slot, at); err != nil {
		return err
	}
	x.live--
	return nil
}

// Close gives memory and file back.
func (x *Index) Close() error {
	x.closed, x.few = true, nil
	return x.scratch.close()
}

// set writes a slot of the file, which it makes larger when it is half full.
func (x *Index) set(h keyHash, p Place) error {
	if 2*x.used >= x.buckets*bucketSlots {
		if err := x.grow(); err != nil {
			return err
		}
	}
	slot, at, err := x.find(h)
	if err != nil {
		return err
	}
	before := slot[slotState]
	binary.LittleEndian.PutUint64(slot, h[0])
	binary.LittleEndian.PutUint64(slot[8:], h[1])
	binary.LittleEndian.PutUint64(slot[16:], uint64(p.Offset))
	binary.LittleEndian.PutUint32(slot[24:], uint32(p.Length))
	slot[slotState] = slotLive
	if err := x.scratch.writeAt(slot, at); err != nil {
		return err
	}
	if before == slotFree {
		x.used++
	}
	if before != slotLive {
		x.live++
	}
	return nil
}

func placeIn(slot []byte) Place {
	return Place{int64(binary.LittleEndian.Uint64(slot[16:])), int32(binary.LittleEndian.Uint32(slot[24:]))}
}

// find reads the slot of a hash, or the free one that it would take, and returns where it is in the
// file. A key is in the bucket that its hash names, or if that is full in one after it.
func (x *Index) find(h keyHash) (slot []byte, at int64, err error) {
	for n := int64(h[0]) & (x.buckets - 1); ; n = (n + 1) & (x.buckets - 1) {
		if _, err := x.scratch.ReadAt(x.bucket[:], n*bucketSize); err != nil {
			return nil, 0, err
		}
		for i := range bucketSlots {
			off := (i + int(h[1]%bucketSlots)) % bucketSlots * slotSize
			slot := x.bucket[off : off+slotSize]
			if slot[slotState] == slotFree || binary.LittleEndian.Uint64(slot) == h[0] && binary.LittleEndian.Uint64(slot[8:]) == h[1] {
				return slot, n*bucketSize + int64(off), nil
			}
		}
	}
}

// spill moves the keys from memory to a file with room for four times as many.
func (x *Index) spill() error {
	next := x.table(1)
	for next.buckets*bucketSlots < 4*int64(len(x.few)) {
		next.buckets *= 2
	}
	err := next.scratch.extend(next.buckets * bucketSize)
	for h, p := range x.few {
		if err != nil {
			break
		}
		err = next.set(h, p)
	}
	return x.become(next, err)
}

// grow moves the keys to a file of twice the size.
func (x *Index) grow() error {
	next := x.table(2 * x.buckets)
	err := next.scratch.extend(next.buckets * bucketSize)
	for n := int64(0); n < x.buckets && err == nil; n++ {
		var bucket [bucketSize]byte
		_, err = x.scratch.ReadAt(bucket[:], n*bucketSize)
		for i := 0; i < bucketSize && err == nil; i += slotSize {
			if slot := bucket[i : i+slotSize]; slot[slotState] == slotLive {
				err = next.set(keyHash{binary.LittleEndian.Uint64(slot), binary.LittleEndian.Uint64(slot[8:])}, placeIn(slot))
			}
		}
	}
	return x.become(next, err)
}

// table is an empty index with a file of so many buckets.
func (x *Index) table(buckets int64) *Index {
	return &Index{scratch: scratch{dir: x.scratch.dir, create: x.scratch.create}, seeds: x.seeds, buckets: buckets}
}

// become takes the file of next, or where that failed stays as it is.
func (x *Index) become(next *Index, err error) error {
	if err != nil {
		_ = next.scratch.close()
		return err
	}
	old := x.scratch
	x.few, x.scratch, x.buckets, x.used, x.live = nil, next.scratch, next.buckets, next.used, next.live
	return old.close()
}
