package spool

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"instep/resourcesync"
)

// Key is an element of the set Keys.
type Key = resourcesync.Key

const (
	defaultBudget = 16 << 20
	// keyOverhead is the number of bytes of memory that a key takes in addition to its
	// text.
	keyOverhead = 32
	// mergeBuffers is the total memory, in bytes, of the buffers with which sorted runs
	// (parts of the temporary file) are read.
	mergeBuffers   = 4 << 20
	minMergeBuffer = 4 << 10
	maxMergeBuffer = 64 << 10
)

// Keys is a set of keys, of any size. Keys are collected in memory. When they exceed the
// memory budget, they are written to a temporary file as a sorted run. Keys is not safe for
// concurrent use.
type Keys struct {
	scratch scratch
	budget  int // the number of bytes that the keys may use in memory before they are written to the file
	held    int // the number of bytes that the keys in memory use
	added   int64
	recent  []Key
	twice   map[Key]bool // the keys that were added more than once while they were in memory
	runs    []run
	closed  bool
}

// run is a part of the temporary file that contains keys in ascending order.
type run struct{ off, n int64 }

// NewKeys returns an empty set. It holds keys of up to budget bytes in memory (default
// 16 MiB). Further keys are stored in a file in the directory dir (default os.TempDir).
func NewKeys(dir string, budget int) *Keys {
	if budget <= 0 {
		budget = defaultBudget
	}
	return &Keys{scratch: newScratch(dir), budget: budget}
}

// Add adds a key to the set.
func (s *Keys) Add(k Key) error {
	if s.closed {
		return errClosed
	}
	size := len(k) + keyOverhead
	if len(s.recent) > 0 && s.held+size > s.budget {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.recent = append(s.recent, k)
	s.held += size
	s.added++
	return nil
}

// Len returns the number of successful calls of Add. A key that was added twice counts
// twice.
func (s *Keys) Len() int64 { return s.added }

// Close releases the memory of the set and deletes its temporary file.
func (s *Keys) Close() error {
	s.closed = true
	s.recent, s.runs, s.held = nil, nil, 0
	return s.scratch.close()
}

func (s *Keys) sort() {
	if !slices.IsSorted(s.recent) { // many lists are sorted already, and testing is faster than sorting
		slices.Sort(s.recent)
	}
	for i := 1; i < len(s.recent); i++ {
		if s.recent[i] == s.recent[i-1] && len(s.twice) < MaxRepeated {
			if s.twice == nil {
				s.twice = map[Key]bool{}
			}
			s.twice[s.recent[i]] = true
		}
	}
	s.recent = slices.Compact(s.recent)
}

// MaxRepeated is the largest number of keys that Repeated returns.
const MaxRepeated = 1 << 16

// Repeated returns the keys that were added more than once, at most MaxRepeated of
// them.
func (s *Keys) Repeated() (map[Key]bool, error) {
	if s.closed {
		return nil, errClosed
	}
	s.sort()
	twice := map[Key]bool{}
	maps.Copy(twice, s.twice)
	if len(s.runs) == 0 {
		return twice, nil
	}
	err := s.walk(func(k Key, again bool) bool {
		if again {
			twice[k] = true
		}
		return len(twice) < MaxRepeated
	})
	return twice, err
}

// walk calls take with the keys from the file and from memory in ascending order, until
// take returns false. The parameter again says whether the key equals the previous key.
func (s *Keys) walk(take func(k Key, again bool) bool) error {
	if s.closed {
		return errClosed
	}
	s.sort()
	m, err := s.merge()
	var last Key
	for first := true; err == nil && len(m) > 0; first = false {
		k := m[0].key
		if !take(k, !first && k == last) {
			return nil
		}
		last = k
		err = m.advance()
	}
	return err
}

// flush writes the keys in memory to the file as a sorted run. For each key it writes the
// length of the prefix that the key shares with the key before it, the length of the rest
// of the key, and the rest.
func (s *Keys) flush() error {
	s.sort()
	r := run{off: s.scratch.size}
	var last Key
	chunk := make([]byte, 0, maxMergeBuffer)
	for i, k := range s.recent {
		n := sharedPrefix(last, k)
		chunk = binary.AppendUvarint(chunk, uint64(n))
		chunk = binary.AppendUvarint(chunk, uint64(len(k)-n))
		chunk = append(chunk, k[n:]...)
		last = k
		if len(chunk) >= maxMergeBuffer/2 || i == len(s.recent)-1 {
			if err := s.scratch.write(chunk); err != nil {
				s.scratch.size = r.off
				return err
			}
			chunk = chunk[:0]
		}
	}
	r.n = s.scratch.size - r.off
	s.runs = append(s.runs, r)
	clear(s.recent)
	s.recent, s.held = s.recent[:0], 0
	return nil
}

func sharedPrefix(a, b Key) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Sorted yields each key once, in ascending order. A loop over Sorted may be repeated, but
// no key may be added during a loop.
func (s *Keys) Sorted() iter.Seq2[Key, error] {
	return func(yield func(Key, error) bool) {
		if err := s.walk(func(k Key, again bool) bool { return again || yield(k, nil) }); err != nil {
			yield("", err)
		}
	}
}

func (s *Keys) merge() (merger, error) {
	var m merger
	size := min(max(mergeBuffers/(len(s.runs)+1), minMergeBuffer), maxMergeBuffer)
	for _, r := range s.runs {
		m = append(m, &cursor{r: bufio.NewReaderSize(s.scratch.section(r.off, r.n), size)})
	}
	m = append(m, &cursor{keys: s.recent})
	open := m[:0]
	for _, c := range m {
		ok, err := c.next()
		if err != nil {
			return nil, err
		}
		if ok {
			open = append(open, c)
		}
	}
	heap.Init(&open)
	return open, nil
}

// cursor reads keys in ascending order from memory or from a sorted run in the file.
type cursor struct {
	key  Key
	r    *bufio.Reader
	keys []Key
}

func (c *cursor) next() (bool, error) {
	if c.r == nil {
		if len(c.keys) == 0 {
			return false, nil
		}
		c.key, c.keys = c.keys[0], c.keys[1:]
		return true, nil
	}
	n, err := binary.ReadUvarint(c.r)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	var more uint64
	if err == nil {
		more, err = binary.ReadUvarint(c.r)
	}
	if err == nil && n > uint64(len(c.key)) {
		err = fmt.Errorf("a key shares %[2]d bytes with the key before it, which has only %[1]d", len(c.key), n)
	}
	if err != nil {
		return false, errBroken(err)
	}
	key := make([]byte, int(n)+int(more))
	copy(key, c.key[:n])
	if _, err := io.ReadFull(c.r, key[n:]); err != nil {
		return false, errBroken(err)
	}
	c.key = Key(key)
	return true, nil
}

// errBroken returns the error for a temporary file that does not contain what was
// written to it.
func errBroken(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read back a key: %w", err)
}

type merger []*cursor

func (m merger) Len() int           { return len(m) }
func (m merger) Less(i, j int) bool { return m[i].key < m[j].key }
func (m merger) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merger) Push(x any)        { *m = append(*m, x.(*cursor)) }
func (m *merger) Pop() any {
	last := len(*m) - 1
	c := (*m)[last]
	*m = (*m)[:last]
	return c
}

func (m *merger) advance() error {
	ok, err := (*m)[0].next()
	if err != nil {
		return err
	}
	if ok {
		heap.Fix(m, 0)
	} else {
		heap.Pop(m)
	}
	return nil
}
