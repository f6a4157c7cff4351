package mirror

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"instep/blob"
	"instep/destination"
	"instep/resourcesync"
)

// shortBucket is a bucket whose disk takes less than it is given, now and then.
type shortBucket struct {
	blob.Bucket
	short func(p []byte) (n int, err error) // what becomes of a write
}

type shortBatch struct {
	blob.Batch
	b *shortBucket
}

type shortObject struct {
	blob.Object
	b *shortBucket
}

func (b *shortBucket) Begin(ctx context.Context) (blob.Batch, error) {
	batch, err := b.Bucket.Begin(ctx)
	return &shortBatch{batch, b}, err
}

func (b *shortBatch) Create(ctx context.Context) (blob.Object, error) {
	o, err := b.Batch.Create(ctx)
	return &shortObject{o, b.b}, err
}

func (b *shortBatch) Put(o blob.Object, p blob.Put) { b.Batch.Put(o.(*shortObject).Object, p) }

func (o *shortObject) Write(p []byte) (int, error) {
	n, err := o.b.short(p)
	if wrote, failed := o.Object.Write(p[:n]); failed != nil {
		return wrote, failed
	}
	return n, err
}

// reusing is a reader that spoils the buffer of the read before, as one that hands on
// its own memory would.
type reusing struct {
	rest []byte
	last []byte
}

func (r *reusing) Read(p []byte) (int, error) {
	clear(r.last)
	n := copy(p[:min(len(p), 1+len(r.rest)/3)], r.rest)
	if n == 0 {
		return 0, io.EOF
	}
	r.rest, r.last = r.rest[n:], p[:n]
	return n, nil
}

// TestCat_VER_06: what is acknowledged is what is on disk: the digest is of the bytes
// that the disk took, and a short write is an error that keeps nothing.
func TestCat_VER_06(t *testing.T) {
	errDisk := errors.New("the disk gave up")
	random := rand.New(rand.NewPCG(6, 6))
	for name, c := range map[string]struct {
		short func(p []byte) (int, error)
		fails bool
	}{
		"whole writes":                {func(p []byte) (int, error) { return len(p), nil }, false},
		"short writes without error":  {func(p []byte) (int, error) { return len(p) / 2, nil }, true},
		"short writes with an error":  {func(p []byte) (int, error) { return len(p) / 2, errDisk }, true},
		"nothing written, no error":   {func([]byte) (int, error) { return 0, nil }, true},
		"an error after all is there": {func(p []byte) (int, error) { return len(p), errDisk }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(filepath.Join(t.TempDir(), "mirror"))
			disk := &shortBucket{short: func(p []byte) (int, error) { return len(p), nil }}
			o.bucket = func(b blob.Bucket) blob.Bucket {
				disk.Bucket = b
				return disk
			}
			m := openMirror(t, o)
			disk.short = c.short
			for i := range 20 {
				verifyPut(t, m, random, i, c.fails)
			}
		})
	}
}

// verifyPut stores random bytes and compares what is held with what is on disk.
func verifyPut(t *testing.T, m *Mirror, random *rand.Rand, i int, fails bool) {
	t.Helper()
	body := make([]byte, 1+random.IntN(200<<10))
	for j := range body {
		body[j] = byte(random.Uint32())
	}
	w := wantedOfBody(home+"/file", string(body), noon.AddDate(0, 0, i))
	err := tryCommit(m, nil, func(b destination.Batch) error {
		_, err := b.Put(t.Context(), set, w, &reusing{rest: body}, false)
		return err
	})
	if fails != (err != nil) {
		t.Fatalf("a body of %d bytes: got %v", len(body), err)
	}
	held, err := m.Lookup(t.Context(), set, []string{w.URI})
	if err != nil {
		t.Fatal(err)
	}
	if fails {
		if held[0].Stored {
			t.Fatalf("bytes that were not written are held: %+v", held[0])
		}
		return
	}
	r, err := m.Open(t.Context(), &held[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, resourcesync.NewVerifyReader(r, w.Length.Int64(), w.Digests)); err != nil {
		t.Errorf("what is on disk: %v", err)
	}
}
