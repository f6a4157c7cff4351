package packages

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"instep/internal/spool"
	"instep/pack"
)

// The members of a remote package are transferred in chunks of a few members that are
// consecutive in the plan. A chunk is transferred completely before its members are
// read. Workers take members in the same order, so they never wait for a later chunk
// while the first one is in memory.
const (
	chunkLength  = 1 << 20 // maximum size in bytes of the members of one chunk
	chunksAtOnce = 6       // maximum number of chunks in memory: one is unpacked while the others are transferred
	partsAtOnce  = 4       // maximum number of concurrent range requests for one chunk
)

type chunk struct {
	members   []chunkMember // sorted by their position in the package
	ranges    []span        // byte ranges that contain the members
	size      int64         // total size of the members in bytes
	unclaimed int           // number of members that no worker has claimed
	unread    int           // number of members that no worker has released

	loaded   chan struct{} // closed when the transfer has ended and err or segments is set
	err      error
	segments []segment // transferred byte ranges, sorted by their position in the package
}

// chunkMember is a member that one resource needs. If several resources need the same
// member, the chunk has a chunkMember for each of them.
type chunkMember struct {
	span
	claimed bool
}

// segment is a transferred range of bytes, in memory, or in a temporary file if it is
// larger than two chunks.
type segment struct {
	span
	io.ReaderAt
	file *spool.File // nil if the bytes are in memory
}

func (s segment) free() {
	if s.file != nil {
		_ = s.file.Close() // the error is harmless: the file is temporary
	}
}

// chunksOf divides members, given in the order of the plan, into chunks. It skips
// members with an invalid position; package pack returns an error when these are
// opened.
func chunksOf(members []span) (chunks []*chunk) {
	var c *chunk
	for _, m := range members {
		if m.size() <= 0 {
			continue
		}
		if c == nil || c.size+m.size() > chunkLength {
			c = &chunk{loaded: make(chan struct{})}
			chunks = append(chunks, c)
		}
		c.members = append(c.members, chunkMember{m, false})
		c.size += m.size()
		c.unclaimed++
	}
	for _, c := range chunks {
		c.unread = c.unclaimed
		slices.SortFunc(c.members, func(a, b chunkMember) int { return a.compare(b.span) })
		c.ranges = c.rangesOf()
	}
	return chunks
}

// rangesOf joins ranges with a short gap between them, so that one request gets both,
// unless the gaps would make the chunk too large.
func (c *chunk) rangesOf() []span {
	all := make([]span, len(c.members))
	for i, m := range c.members {
		all[i] = m.span
	}
	joined := union(slices.Clone(all), GapSize)
	if len(all) > 1 && totalSize(joined) > 2*chunkLength {
		return union(all, 0)
	}
	return joined
}

func totalSize(all []span) (n int64) {
	for _, s := range all {
		n += s.size()
	}
	return n
}

func costOf(chunks []*chunk) (n int64) {
	for _, c := range chunks {
		n += Cost(totalSize(c.ranges), int64(len(c.ranges)))
	}
	return n
}

// load transfers the chunk, and repeats a failed transfer as often as the client
// repeats a failed request.
func (c *chunk) load(ctx context.Context, from *remotePackage, dir string) error {
	for failed := 1; ; failed++ {
		err := c.transfer(ctx, from, dir)
		if err != nil {
			c.free()
		}
		if !from.client.Again(ctx, failed, err) {
			return err
		}
	}
}

func (c *chunk) transfer(ctx context.Context, from *remotePackage, dir string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	c.segments = make([]segment, len(c.ranges))
	for i, s := range c.ranges {
		group.Go(func() (err error) {
			c.segments[i], err = from.segment(ctx, s, dir)
			return err
		})
	}
	return group.Wait()
}

func (r *remotePackage) segment(ctx context.Context, s span, dir string) (segment, error) {
	body, err := r.open(ctx, s)
	if err != nil {
		return segment{}, err
	}
	defer body.Close()
	if s.size() <= 2*chunkLength {
		b := make([]byte, s.size())
		_, err := io.ReadFull(body, b)
		return segment{s, bytes.NewReader(b), nil}, err
	}
	f := spool.NewFile(dir, 0)
	_, err = io.CopyN(f, body, s.size())
	return segment{s, f, f}, err
}

func (c *chunk) free() {
	for _, s := range c.segments {
		s.free()
	}
	c.segments = nil
}

// claim returns false if workers have claimed this member for all resources that need
// it.
func (c *chunk) claim(m span) bool {
	i, _ := slices.BinarySearchFunc(c.members, m, func(have chunkMember, m span) int { return have.compare(m) })
	for ; i < len(c.members) && c.members[i].span == m; i++ {
		if have := &c.members[i]; !have.claimed {
			have.claimed = true
			c.unclaimed--
			return true
		}
	}
	return false
}

func (c *chunk) open(b pack.Bitstream, most int64) (io.ReadCloser, error) {
	m := spanOf(b)
	i, _ := slices.BinarySearchFunc(c.segments, m.from, func(s segment, from int64) int { return cmp.Compare(s.from, from+1) })
	s := c.segments[i-1]
	return b.OpenSpan(io.NewSectionReader(s, m.from-s.from, m.size()), most)
}
