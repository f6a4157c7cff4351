package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"instep/internal/mediatype"
	"instep/resourcesync"
)

const (
	attempts   = 3 // to hash a file that changes meanwhile
	bufferSize = 128 << 10
)

// hashed is a file as it was read.
type hashed struct {
	path     string
	uri      string
	gone     bool // not there any more, or no longer published
	err      error
	read     int64 // bytes, in all attempts
	length   int64
	digests  resourcesync.Digests // by the algorithms asked for
	also     resourcesync.Digest  // by item.Also
	modified time.Time
	mimeType string
	stat     string // "" if a later change might not show
}

// job is a file to hash and the place for the outcome.
type job struct {
	item
	out chan hashed // holds one
}

// hashAll hashes the files of a plan in parallel and passes them to each one by
// one, in the order of the plan. It stops with the first error of each. At most
// batchSize files are hashed ahead of it.
func (d *Dir) hashAll(ctx context.Context, p *Plan, each func(hashed) error) error {
	g, ctx := errgroup.WithContext(ctx)
	jobs := make(chan job)
	order := make(chan chan hashed, batchSize) // so that hashing goes on behind a large file and a transaction
	g.Go(func() error {
		defer close(order)
		defer close(jobs)
		return queue(ctx, p, jobs, order)
	})
	for range d.workers() {
		g.Go(func() error {
			buffer := make([]byte, bufferSize)
			for j := range jobs {
				j.out <- d.hash(ctx, j.item, buffer)
			}
			return nil
		})
	}
	g.Go(func() error {
		for out := range order {
			select {
			case h := <-out:
				err := ctx.Err() // then h may have failed for that
				if err == nil {
					err = each(h)
				}
				if err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return ctx.Err()
	})
	return g.Wait()
}

// workers is how many resources are hashed at a time.
func (d *Deps) workers() int {
	if d.Workers > 0 {
		return d.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func queue(ctx context.Context, p *Plan, jobs chan<- job, order chan<- chan hashed) error {
	for it, err := range p.work.All() {
		if err != nil {
			return err
		}
		j := job{it, make(chan hashed, 1)}
		select {
		case order <- j.out:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case jobs <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hash reads the file until it holds still.
func (d *Dir) hash(ctx context.Context, it item, buffer []byte) hashed {
	name := string(it.Path)
	h := hashed{path: name, uri: URI(d.BaseURL, name)}
	for range attempts {
		h.err = d.hashOnce(ctx, it, &h, buffer)
		if e := (*ChangedError)(nil); !errors.As(h.err, &e) {
			break
		}
	}
	if errors.Is(h.err, fs.ErrNotExist) {
		h.err, h.gone = nil, true
	}
	return h
}

func (d *Dir) hashOnce(ctx context.Context, it item, h *hashed, buffer []byte) error {
	began := d.Now()
	f, reason, err := d.locate(h.path)
	if err != nil {
		return err
	}
	if h.gone = reason != ""; h.gone {
		return nil
	}
	file, err := d.Tree.Open(f.target)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return err
	}
	if fingerprint(before) != fingerprint(f.info) { // perhaps not the file that was found fit to publish
		return &ChangedError{attempts, statOf(f.info), statOf(before)}
	}
	n, err := d.digest(ctx, h, resourcesync.Algorithm(it.Also), io.LimitReader(file, before.Size()+1), buffer)
	h.read += n
	if err != nil {
		return err
	}
	after, err := file.Stat()
	if err != nil {
		return err
	}
	if fingerprint(after) != fingerprint(before) {
		return &ChangedError{attempts, statOf(before), statOf(after)}
	}
	if n != before.Size() {
		return fmt.Errorf("expected %d bytes, found %d", before.Size(), n)
	}
	h.length, h.modified, h.stat = n, after.ModTime(), ""
	if settled(after, began) {
		h.stat = fingerprint(after)
	}
	return nil
}

// digest reads r to its end.
func (d *Dir) digest(ctx context.Context, h *hashed, also resourcesync.Algorithm, r io.Reader, buffer []byte) (int64, error) {
	algorithms := d.algorithms()
	if also != "" {
		algorithms = append(slices.Clone(algorithms), also)
	}
	hasher := resourcesync.NewHasher(algorithms...)
	r = contextReader{ctx, r}
	prefix := buffer[:mediatype.PrefixSize]
	n, err := io.ReadFull(r, prefix)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return int64(n), err
	}
	h.mimeType = mediatype.Of(h.path, prefix[:n])
	if _, err := hasher.Write(prefix[:n]); err != nil {
		return int64(n), err
	}
	more, err := io.CopyBuffer(hasher, r, buffer)
	h.digests = hasher.Digests()
	if also != "" {
		h.also = h.digests.Get(also)
		h.digests = slices.DeleteFunc(h.digests, func(d resourcesync.Digest) bool { return d.Algorithm() == also })
	}
	return int64(n) + more, err
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
