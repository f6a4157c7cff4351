package catalog

import (
	"encoding/binary"
	"sync/atomic"

	"instep/resourcesync"
)

// sieve tells of most keys that no row of the tables has them, so that nobody has to ask:
// in a baseline nearly all that is looked up is not there. It has the keys of resources and
// the folded paths of files and directories. A nil sieve lets everything through.
//
// It is a Bloom filter; keys are hashes already, and their bits are taken as they are.
type sieve struct{ words []atomic.Uint64 }

const (
	// With 8 Mi bits it is right about all but 1 in 1,000 of what a mirror of 200,000
	// resources lacks, about all but 1 in 7 at a million; beyond that it helps less and less.
	sieveBits   = 8 << 20
	sieveProbes = 4
)

func newSieve() *sieve { return &sieve{make([]atomic.Uint64, sieveBits/64)} }

// add is for keys that are about to be recorded.
func (s *sieve) add(key resourcesync.Key) {
	if s == nil {
		return
	}
	for i := range sieveProbes {
		word, bit := s.at(key, i)
		word.Or(bit)
	}
}

// lacks reports whether a key was never recorded.
func (s *sieve) lacks(key resourcesync.Key) bool {
	if s == nil {
		return false
	}
	for i := range sieveProbes {
		if word, bit := s.at(key, i); word.Load()&bit == 0 {
			return true
		}
	}
	return false
}

// at is where the bit of a probe is.
func (s *sieve) at(key resourcesync.Key, probe int) (word *atomic.Uint64, bit uint64) {
	n := binary.LittleEndian.Uint32(key[4*probe:]) % sieveBits
	return &s.words[n/64], 1 << (n % 64)
}
