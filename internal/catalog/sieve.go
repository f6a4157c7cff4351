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
// It is a Bloom filter in lines of 512 bits: all that is asked of a key lies in one line of
// the processor's cache. Keys are hashes already, and their bits are taken as they are.
type sieve struct{ lines []sieveLine }

type sieveLine [8]atomic.Uint64

const (
	// With 8 Mi bits it is right about all but 1 in 900 of what a mirror of 200,000
	// resources lacks, about all but 1 in 7 at a million; beyond that it helps less and less.
	sieveLines  = 16 << 10
	sieveProbes = 4
)

func newSieve() *sieve {
	s := &sieve{make([]sieveLine, sieveLines)}
	for i := range s.lines {
		s.lines[i][0].Store(0) // memory that is read before it is written costs the system more
	}
	return s
}

// add is for keys that are about to be recorded.
func (s *sieve) add(key resourcesync.Key) {
	if s == nil {
		return
	}
	line := s.line(key)
	for i := range sieveProbes {
		word, bit := probe(key, i)
		line[word].Or(bit)
	}
}

// lacks reports whether a key was never recorded.
func (s *sieve) lacks(key resourcesync.Key) bool {
	if s == nil {
		return false
	}
	line := s.line(key)
	for i := range sieveProbes {
		if word, bit := probe(key, i); line[word].Load()&bit == 0 {
			return true
		}
	}
	return false
}

func (s *sieve) line(key resourcesync.Key) *sieveLine {
	return &s.lines[binary.LittleEndian.Uint32(key[:])%sieveLines]
}

// probe is a bit of a line.
func probe(key resourcesync.Key, i int) (word int, bit uint64) {
	n := binary.LittleEndian.Uint16(key[4+2*i:])
	return int(n / 64 % 8), 1 << (n % 64)
}
