package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// tape is a body, and the clock by which it comes.
type tape struct {
	io.Reader
	now  time.Time
	pace time.Duration // for each MiB
}

func (t *tape) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b[:min(len(b), 100_000)])
	t.now = t.now.Add(t.pace * time.Duration(n) / (1 << 20))
	return n, err
}

// loggedPart tells where checkpoints were made.
type loggedPart struct {
	memoryPart
	marks []int64
}

func (p *loggedPart) Checkpoint(ctx context.Context, note string) error {
	p.marks = append(p.marks, p.Size()>>20)
	return p.memoryPart.Checkpoint(ctx, note)
}

// Of a slow transfer 8 MiB may have to be brought again, or what comes in a second; of one
// that is so fast that the disk would hold it up, 32 MiB.
func TestCheckpointsAreAsFarFromEachOtherAsTheLineIsFast(t *testing.T) {
	for _, tt := range []struct {
		name    string
		version string
		pace    time.Duration
		want    []int64 // MiB
	}{
		{"slow", `"1"`, time.Second, []int64{8, 16, 24, 32, 40, 48, 56, 64}},
		{"8 MiB in little more than a second", `"1"`, 130 * time.Millisecond, []int64{8, 16, 24, 32, 40, 48, 56, 64}},
		{"20 MiB in a second", `"1"`, time.Second / 20, []int64{20, 40, 60}},
		{"fast", `"1"`, time.Millisecond, []int64{32, 64}},
		{"of a version that nobody can ask for again", "", time.Second, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := bytes.Repeat([]byte("0123456789abcdef"), 70<<20/16)
			from := &tape{bytes.NewReader(body), time.Unix(0, 0), tt.pace}
			client, err := fetch.New(fetch.Options{Now: func() time.Time { return from.now }})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			part := &loggedPart{}
			sum := sha256.Sum256(body)
			digest, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
			if err != nil {
				t.Fatal(err)
			}
			dl := &Download{Client: client, Part: part, Request: fetch.Request{MaxBytes: 1 << 30}, Digests: resourcesync.Digests{digest}}
			if err := dl.begin(); err != nil {
				t.Fatal(err)
			}
			dl.note.Version = tt.version
			if err := dl.receive(t.Context(), from); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(part.marks, tt.want) {
				t.Errorf("checkpoints at: got %v MiB, want %v", part.marks, tt.want)
			}
			if part.bytes.String() != string(body) {
				t.Error("other bytes are in the part than came")
			}
			if err := dl.verify(); err != nil {
				t.Errorf("hashed: %v", err)
			}
		})
	}
}

// What came before a body broke off is in the part, hashed, and noted, down to the last byte.
func TestEverythingThatCameBeforeABodyBrokeOffIsKept(t *testing.T) {
	client, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	part := &loggedPart{}
	dl := &Download{Client: client, Part: part, Request: fetch.Request{MaxBytes: 1 << 30}}
	if err := dl.begin(); err != nil {
		t.Fatal(err)
	}
	dl.note.Version = `"1"`
	const n = 9<<20 + 7
	broken := dl.receive(t.Context(), io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if !harvest.IsSourceError(broken) {
		t.Fatalf("got %v, want an error of the Source's side", broken)
	}
	if err := dl.Leave(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if _, at := part.Note(); part.Size() != n || at != n {
		t.Errorf("kept: got %d bytes, %d noted; want %d", part.Size(), at, n)
	}
}
