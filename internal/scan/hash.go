package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/mediatype"
	"instep/resourcesync"
)

const (
	attempts   = 3 // number of attempts to hash a file that changes while it is read
	bufferSize = 128 << 10
)

type hashed struct {
	path      string
	uri       string
	labelOnly bool  // whether only the type, encoding and links were determined, and the bytes were not hashed
	gone      bool  // whether the file no longer exists, or is no longer published
	piece     int64 // item.Piece
	err       error
	read      int64 // number of bytes that were read, in all attempts together
	length    int64
	digests   resourcesync.Digests // the digests by the configured algorithms
	extra     resourcesync.Digest  // the digest by the algorithm item.Also, which is only compared with a recorded digest
	sha256    resourcesync.Digest  // the SHA-256 digest of the copy in the field kept
	kept      blob.Object          // copy of the bytes; nil if no copy was requested
	modified  time.Time
	label     Rule
	// remainder has the links that rules give to the file, in the form of
	// catalog.Resource.Remainder.
	remainder string
	stat      string // stamp of the file, to be stored in catalog.Resource.Stat; "" if a later change of the file might leave its stamp the same
}

type reader struct {
	d      *Dir
	buffer []byte
	dir    string // the path of the directory that was opened last
	sub    Tree   // tree of the directory that was opened last; nil if there is none
}

func (r *reader) close() error {
	if r.sub == nil {
		return nil
	}
	err := r.sub.Close()
	r.sub = nil
	return err
}

func (r *reader) begin(it item) hashed {
	name := string(it.Path)
	return hashed{path: name, uri: r.d.uri(name, it.URI), piece: it.Piece, label: RuleFor(r.d.Rules, name)}
}

// hash reads and hashes a file. It repeats this if the file changes while it is read.
func (r *reader) hash(ctx context.Context, it item, keep blob.Batch) hashed {
	h := r.begin(it)
	for range attempts {
		h.err = r.hashOnce(ctx, it, &h, keep)
		if e := (*ChangedError)(nil); !errors.As(h.err, &e) {
			break
		}
		it.Print = stamp{}
	}
	return r.withLinks(ctx, h.markGone())
}

func (h hashed) markGone() hashed {
	if errors.Is(h.err, fs.ErrNotExist) {
		h.err, h.gone = nil, true
	}
	return h
}

func (r *reader) hashOnce(ctx context.Context, it item, h *hashed, keep blob.Batch) error {
	began := r.d.Now()
	return r.open(it, h, func(f fs.File, before fs.FileInfo) error {
		n, err := r.digest(ctx, h, resourcesync.Algorithm(it.Also), keep, f, before.Size())
		h.read += n
		if err != nil {
			return err
		}
		after, err := f.Stat()
		if err == nil && stampOf(after) != stampOf(before) {
			err = &ChangedError{attempts, statOf(before), statOf(after)}
		}
		if err == nil && n != before.Size() {
			err = fmt.Errorf("expected %d bytes, found %d", before.Size(), n)
		}
		if err != nil {
			return errors.Join(err, h.discard())
		}
		h.length, h.modified, h.stat = n, after.ModTime(), ""
		if p := stampOf(after); p.isSettled(began) {
			h.stat = p.String()
		}
		return nil
	})
}

// open opens the file that the scan found, and passes it to the function read. If the
// file was replaced meanwhile, open passes the new file at the same path, unless that
// file must not be published.
func (r *reader) open(it item, h *hashed, read func(fs.File, fs.FileInfo) error) error {
	if file, info := r.openSeen(it); file != nil {
		defer file.Close()
		return read(file, info)
	}
	f, reason, err := r.d.locate(h.path)
	if err != nil {
		return err
	}
	if h.gone = reason != ""; h.gone {
		return nil
	}
	file, err := r.d.Tree.Open(f.target)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if stampOf(info) != stampOf(f.info) { // the file was replaced after locate allowed it, so it may now be one that must not be published
		return &ChangedError{attempts, statOf(f.info), statOf(info)}
	}
	return read(file, info)
}

// openSeen opens the file that the scan found, if its stamp is still the same. It keeps the
// directory open, because the next file is often in the same directory.
func (r *reader) openSeen(it item) (fs.File, fs.FileInfo) {
	name := string(it.Path)
	if it.Print == (stamp{}) || !r.enterDir(catalog.DirOf(name)) {
		return nil, nil
	}
	tree := r.sub
	if tree == nil {
		tree = r.d.Tree
	}
	file, err := tree.Open(path.Base(name))
	if err != nil {
		return nil, nil
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || stampOf(info) != it.Print {
		_ = file.Close() // the error is ignored: no data can be lost, because the file was opened only for reading
		return nil, nil
	}
	return file, info
}

// enterDir opens a directory, and reports whether that was possible. No element of the path
// may be a symbolic link or hidden.
func (r *reader) enterDir(dir string) bool {
	if dir == r.dir && r.sub != nil {
		return true
	}
	if err := r.close(); err != nil {
		return false
	}
	if r.dir = dir; dir == "." {
		return true
	}
	if reason, err := r.d.refusedAbove(dir + "/"); reason != "" || err != nil {
		return false
	}
	sub, err := r.d.Tree.Sub(dir)
	if err == nil {
		r.sub = sub
	}
	return err == nil
}

// digest hashes the first size bytes of a file. Its caller checks whether the file has
// become longer. Some operating systems report the size 0 for files with content, so
// digest always tries to read at least one byte.
func (r *reader) digest(ctx context.Context, h *hashed, also resourcesync.Algorithm, keep blob.Batch, f io.Reader, size int64) (n int64, err error) {
	hasher := resourcesync.NewHasher(r.d.algorithmsToCompute(also, keep != nil)...)
	to := io.Writer(hasher)
	if keep != nil {
		if h.kept, err = keep.Create(ctx); err != nil {
			return 0, err
		}
		defer func() {
			if err = errors.Join(err, h.kept.Close()); err != nil {
				err = errors.Join(err, h.discard())
			}
		}()
		to = io.MultiWriter(hasher, h.kept)
	}
	if n, err = r.copy(to, h, io.LimitReader(contextReader{ctx, f}, max(size, 1)), size); err != nil {
		return n, err
	}
	all := hasher.Digests()
	h.extra, h.sha256 = all.Get(also), all.Get(resourcesync.SHA256)
	h.digests = slices.DeleteFunc(all, func(d resourcesync.Digest) bool { return !slices.Contains(r.d.algorithms(), d.Algorithm()) })
	return n, nil
}

func (d *Deps) algorithmsToCompute(also resourcesync.Algorithm, kept bool) []resourcesync.Algorithm {
	all := slices.Clone(d.algorithms())
	if also != "" && !slices.Contains(all, also) {
		all = append(all, also)
	}
	if kept && !slices.Contains(all, resourcesync.SHA256) {
		all = append(all, resourcesync.SHA256)
	}
	return all
}

func (r *reader) copy(to io.Writer, h *hashed, from io.Reader, size int64) (int64, error) {
	first, err := readPrefix(from, r.buffer[:min(int64(len(r.buffer)), max(size, 1))])
	n := int64(len(first))
	if err != nil {
		return n, err
	}
	if h.label.Type == "" {
		h.label.Type = mediatype.Of(h.path, first)
	}
	if _, err := to.Write(first); err != nil || n >= size {
		return n, err
	}
	more, err := io.CopyBuffer(to, from, r.buffer)
	return n + more, err
}

func readPrefix(from io.Reader, buffer []byte) ([]byte, error) {
	n, err := io.ReadFull(from, buffer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return buffer[:n], err
}

func (h *hashed) discard() error {
	if h.kept == nil {
		return nil
	}
	err := h.kept.Discard()
	h.kept = nil
	return err
}

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
