package spool

import (
	"encoding/binary"
	"hash/maphash"
)

// Index maps keys, which are texts, to the positions of records in a Log. As long as
// there are few keys, they are in memory. A larger number of keys is in a hash table in
// a temporary file: then each call reads one bucket of the table, and Set writes one
// slot. An Index is not safe for concurrent use.
type Index struct {
	scratch scratch
	limit   int               // the largest number of keys in memory
	few     map[keyHash]Place // the positions of records by key, while there are few keys; nil if the keys are in the file
	seeds   [2]maphash.Seed   // of keyHash
	buckets int64             // the number of buckets of the hash table in the file, a power of two
	used    int64             // the number of slots in the file that have or had a key
	live    int64             // the number of keys
	bucket  [bucketSize]byte  // the bytes of the bucket that was last read from the file
	closed  bool
}

// keyHash is the hash of a key, which is stored instead of the key. It depends on a
// random seed, so that nobody can choose keys whose hashes are equal.
type keyHash [2]uint64

// Layout of the hash table. A slot stores the hash of a key, the position of its
// record, and whether the slot is free, used or deleted.
const (
	slotSize    = 32
	bucketSlots = 32
	bucketSize  = slotSize * bucketSlots

	slotState = 28 // the offset of the byte in a slot that says whether the slot is free, used or deleted
)

const (
	slotFree = iota
	slotLive
	slotDeleted
)

// NewIndex returns an empty Index. It holds up to limit keys in memory (default
// 65,536). A larger number of keys is stored in a file in the directory dir (default
// os.TempDir).
func NewIndex(dir string, limit int) *Index {
	if limit <= 0 {
		limit = 1 << 16
	}
	return &Index{scratch: newScratch(dir), limit: limit, few: map[keyHash]Place{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (x *Index) hash(k string) keyHash {
	return keyHash{maphash.String(x.seeds[0], k), maphash.String(x.seeds[1], k)}
}

// Len returns the number of keys.
func (x *Index) Len() int64 { return x.live }

// Get returns the position that is stored for a key, or ok=false if the Index does not
// have the key.
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

// Set stores a position for a key. It replaces an earlier position of the key.
func (x *Index) Set(k string, p Place) error {
	if x.closed {
		return errClosed
	}
	h := x.hash(k)
	if x.few != nil {
		if _, again := x.few[h]; again || len(x.few) < x.limit {
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

// Delete removes a key and its position.
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

// Close releases the memory of the Index and deletes its temporary file.
func (x *Index) Close() error {
	x.closed, x.few = true, nil
	return x.scratch.close()
}

// set stores the position of a record in the hash table, under the hash of the key. If
// half of the slots are used, it doubles the size of the table first.
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

// find returns the slot that contains a hash, or a free slot if there is none, and the
// offset of the slot in the file. The first part of the hash selects a bucket. If that
// bucket is full, the slot is in one of the following buckets.
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

// spill moves the keys from memory to a hash table for four times as many keys.
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

// table returns an empty Index with a hash table of the given number of buckets in a
// file.
func (x *Index) table(buckets int64) *Index {
	return &Index{scratch: scratch{dir: x.scratch.dir, create: x.scratch.create}, seeds: x.seeds, buckets: buckets}
}

// become replaces the hash table by that of next. The parameter err is the error of
// filling next; if it is not nil, become keeps the old table, closes next and returns
// err.
func (x *Index) become(next *Index, err error) error {
	if err != nil {
		_ = next.scratch.close()
		return err
	}
	old := x.scratch
	x.few, x.scratch, x.buckets, x.used, x.live = nil, next.scratch, next.buckets, next.used, next.live
	return old.close()
}
