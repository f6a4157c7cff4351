package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"instep/blob"
	"instep/harvest"
	"instep/internal/durable"
	"instep/internal/spool"
	"instep/transfer"
)

// A part is the stored beginning of a transfer that can be continued after an
// interruption. The directory partsKey has two files for each part: the received bytes,
// and the note with facts about the last checkpoint. A later run can use the bytes only
// up to that checkpoint.
const (
	partsKey   = ours + "/parts"
	noteSuffix = ".note"
	maxNote    = 1 << 20 // largest size, in bytes, of a note (the file with the last checkpoint of a part)
	partAge    = 7 * 24 * time.Hour
)

// part implements transfer.Part.
type part struct {
	m    *Mirror
	name string
	key  string
	f    *os.File // the file with the bytes; nil after the part was closed, discarded or put
	size int64
	note partNote
	err  error // the first error of a write or sync; after it, the content of the file is unknown
}

type partNote struct {
	Name string    `json:"name"`
	At   int64     `json:"at"` // the number of bytes that were durable at the last checkpoint
	Note string    `json:"note"`
	Made time.Time `json:"made"`
}

var errPartEnded = errors.New("the part was already closed, discarded or put")

func partKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return partsKey + "/" + hex.EncodeToString(sum[:])
}

// Part implements destination.Mirror. Open removes parts that have no checkpoint, and those
// whose last checkpoint is more than a week old.
func (m *Mirror) Part(ctx context.Context, name string) (transfer.Part, error) {
	if m.readOnly {
		return nil, ErrReadOnly
	}
	p := &part{m: m, name: name, key: partKey(name)}
	if !m.claims.reserveMove(p.key, nil) {
		return nil, fmt.Errorf("another transfer uses the stored beginning of %q", name)
	}
	if err := p.open(ctx); err != nil {
		return nil, fmt.Errorf("open the stored beginning of %q: %w", name, errors.Join(err, p.end()))
	}
	return p, nil
}

func (p *part) open(ctx context.Context) (err error) {
	if p.f, err = p.m.openPart(p.key); err != nil {
		return err
	}
	info, err := p.f.Stat()
	if err != nil {
		return err
	}
	p.size = info.Size()
	if p.note, err = p.m.readNote(ctx, p.key); err != nil {
		return err
	}
	if p.note.Name == p.name && p.note.At <= p.size {
		return nil
	}
	return p.dropNote(ctx)
}

// openPart creates the file if necessary. It tries again if the directory of the parts
// disappears, because another part was removed at the same time.
func (m *Mirror) openPart(key string) (*os.File, error) {
	for {
		if err := m.makePartsDir(); err != nil {
			return nil, err
		}
		f, err := durable.OpenToWrite(m.disk.root, key)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = m.disk.root.OpenFile(key, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
}

func (m *Mirror) makePartsDir() error {
	k, err := m.disk.lstat(partsKey)
	switch {
	case err != nil:
		return err
	case k == absent:
		if err := m.disk.root.Mkdir(partsKey, oursMode); !errors.Is(err, fs.ErrExist) {
			return err
		}
	case k != directory:
		return fmt.Errorf("%q should be a directory, but is a %s: remove it", partsKey, k)
	}
	return nil
}

// readNote returns the note of a part, or the zero note if it is missing or damaged.
func (m *Mirror) readNote(ctx context.Context, key string) (note partNote, err error) {
	text, err := blob.ReadAll(ctx, m.bucket, key+noteSuffix, maxNote)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrTooLarge):
		return partNote{}, nil
	case err != nil:
		return partNote{}, err
	case json.Unmarshal(text, &note) != nil || note.At < 0:
		return partNote{}, nil
	}
	return note, nil
}

// Write implements transfer.Part.
func (p *part) Write(b []byte) (int, error) {
	if err := p.checkUsable(); err != nil {
		return 0, err
	}
	n, err := p.f.WriteAt(b, p.size)
	p.size += int64(n)
	p.err = err
	return n, err
}

// checkUsable returns an error if the part was closed, discarded or put, or if the
// content of its file is unknown after an error.
func (p *part) checkUsable() error {
	if p.f == nil {
		return errPartEnded
	}
	return p.err
}

// ReadAt implements transfer.Part.
func (p *part) ReadAt(b []byte, off int64) (int, error) {
	if p.f == nil {
		return 0, errPartEnded
	}
	return p.f.ReadAt(b, off)
}

// Size implements transfer.Part.
func (p *part) Size() int64 { return p.size }

// Note implements transfer.Part.
func (p *part) Note() (string, int64) { return p.note.Note, p.note.At }

// Checkpoint implements transfer.Part.
func (p *part) Checkpoint(ctx context.Context, note string) error {
	if err := p.checkUsable(); err != nil {
		return err
	}
	if p.err = p.f.Sync(); p.err != nil {
		return p.err
	}
	made := partNote{Name: p.name, At: p.size, Note: note, Made: p.m.o.Now().UTC()}
	text, err := json.Marshal(made)
	if err == nil && len(text) > maxNote {
		err = fmt.Errorf("the note for %q has %d bytes, expected at most %d", p.name, len(text), maxNote)
	}
	if err != nil {
		return err
	}
	if _, err := blob.Write(ctx, p.m.bucket, strings.NewReader(string(text)), blob.Put{Key: p.key + noteSuffix}); err != nil {
		return err
	}
	p.note = made
	return nil
}

// Truncate implements transfer.Part.
func (p *part) Truncate(n int64) error {
	if err := p.checkUsable(); err != nil {
		return err
	}
	if n < 0 || n > p.size {
		return fmt.Errorf("cannot truncate the stored beginning of %q, which has %d bytes, to %d", p.name, p.size, n)
	}
	if p.note.At > n {
		if err := p.dropNote(context.Background()); err != nil {
			return err
		}
	}
	if p.err = p.f.Truncate(n); p.err == nil {
		p.size = n
	}
	return p.err
}

func (p *part) dropNote(ctx context.Context) error {
	p.note = partNote{}
	return p.m.remove(ctx, []string{p.key + noteSuffix})
}

// Close implements transfer.Part.
func (p *part) Close() error {
	if p.f == nil {
		return nil
	}
	if p.size == 0 {
		return p.Discard()
	}
	return p.end()
}

// Discard implements transfer.Part.
func (p *part) Discard() error {
	if p.f == nil {
		return nil
	}
	err := p.m.remove(context.Background(), []string{p.key + noteSuffix, p.key})
	return errors.Join(err, p.end())
}

// end closes the file of the part, and allows another transfer to open the part.
func (p *part) end() (err error) {
	if p.f != nil {
		err = p.f.Close()
		p.f = nil
	}
	p.m.claims.drop(p.key)
	return err
}

// PutPart implements destination.Batch.
func (b *batch) PutPart(ctx context.Context, set string, w harvest.Resource, dp transfer.Part, verified bool) (int64, error) {
	p, ok := dp.(*part)
	if !ok || p.m != b.m {
		return 0, fmt.Errorf("put a part of %q: the part belongs to another mirror", w.URI)
	}
	if err := p.checkUsable(); err != nil {
		return 0, err
	}
	err := b.store(ctx, set, &w, verified, func() (*content, error) {
		c, err := b.takeOver(ctx, &w, p.key, io.NewSectionReader(p.f, 0, p.size))
		if err != nil {
			return nil, notHeld(p.key, err)
		}
		c.note = p.key + noteSuffix
		return c, nil
	})
	if err != nil {
		return 0, err
	}
	f := p.f
	p.f = nil
	b.m.claims.passTo(p.key, b)
	return p.size, f.Close()
}

// sweepParts removes the parts that no later run can continue. It must not be called
// while a part is open.
func (m *Mirror) sweepParts(ctx context.Context) error {
	for infos, err := range spool.Batches(m.bucket.List(ctx, partsKey+"/"), chunkSize) {
		if err != nil {
			return err
		}
		var old []string
		for _, info := range infos {
			keep, err := m.keepsPart(ctx, info)
			if err != nil {
				return err
			}
			if !keep {
				old = append(old, info.Key)
			}
		}
		if err := m.remove(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// keepsPart reports whether a file is needed to continue a transfer. The file has
// either the received bytes of a part or its note.
func (m *Mirror) keepsPart(ctx context.Context, info blob.Info) (bool, error) {
	key, isNote := strings.CutSuffix(info.Key, noteSuffix)
	note, err := m.readNote(ctx, key)
	if err != nil || partKey(note.Name) != key || m.o.Now().Sub(note.Made) > partAge {
		return false, err
	}
	size := info.Size
	if isNote {
		of, err := m.bucket.Stat(ctx, key)
		if err != nil {
			return false, ignoreAbsent(err)
		}
		size = of.Size
	}
	return note.At <= size, nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// PartsKept returns the number of interrupted transfers that a later run can continue,
// and the bytes stored for them.
func (m *Mirror) PartsKept(ctx context.Context) (n int, bytes int64, err error) {
	for info, err := range m.bucket.List(ctx, partsKey+"/") {
		if err != nil {
			return n, bytes, err
		}
		if !strings.HasSuffix(info.Key, noteSuffix) {
			n++
			bytes += info.Size
		}
	}
	return n, bytes, nil
}
