//go:build unix

package bench

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"instep/resourcesync"
)

// bareEntry holds the values of an entry.
type bareEntry struct {
	loc, mediaType string
	lastMod        time.Time
	length         int64
	md5            [md5.Size]byte
	sha256         [sha256.Size]byte
}

// readBare reads the entries of a list as this package writes it, and of nothing
// else: it looks for the texts it expects and checks nothing. That is about what
// can be done in Go by hand.
func readBare(r io.Reader, yield func(*bareEntry)) error {
	buf := make([]byte, 64<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		rest := buf[:kept+n]
		for {
			begin := bytes.Index(rest, []byte("<url>"))
			if begin < 0 {
				break
			}
			end := bytes.Index(rest[begin:], []byte("</url>"))
			if end < 0 {
				break
			}
			var e bareEntry
			e.read(rest[begin : begin+end])
			yield(&e)
			rest = rest[begin+end:]
		}
		kept = copy(buf, rest)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (e *bareEntry) read(b []byte) {
	loc, b := between(b, "<loc>")
	e.loc = string(loc)
	date, b := between(b, "<lastmod>")
	e.lastMod = bareTime(date)
	for b = b[bytes.Index(b, []byte("<rs:md"))+len("<rs:md"):]; b[0] == ' '; {
		name := b[1:bytes.IndexByte(b, '=')]
		value := b[len(name)+3:]
		value = value[:bytes.IndexByte(value, '"')]
		switch name[0] {
		case 'h': // md5:… sha-256:…
			bareHex(e.md5[:], value[4:])
			bareHex(e.sha256[:], value[4+2*md5.Size+9:])
		case 'l':
			e.length = int64(bareNumber(value))
		case 't':
			e.mediaType = string(value)
		}
		b = b[len(name)+len(value)+4:]
	}
}

// between returns what is between the start tag and the next tag.
func between(b []byte, tag string) (text, rest []byte) {
	b = b[bytes.Index(b, []byte(tag))+len(tag):]
	i := bytes.IndexByte(b, '<')
	return b[:i], b[i:]
}

// bareTime reads YYYY-MM-DDThh:mm:ssZ.
func bareTime(b []byte) time.Time {
	return time.Date(bareNumber(b[:4]), time.Month(bareNumber(b[5:7])), bareNumber(b[8:10]),
		bareNumber(b[11:13]), bareNumber(b[14:16]), bareNumber(b[17:19]), 0, time.UTC)
}

func bareNumber(b []byte) (n int) {
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}

func bareHex(dst, src []byte) {
	for i := range dst {
		dst[i] = nibble[src[2*i]]<<4 | nibble[src[2*i+1]]
	}
}

var nibble = func() (t [256]byte) {
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	return t
}()

// TestBareReaderReadsTheSame keeps the comparison fair: the reader without checks
// has to come to the same values.
func TestBareReaderReadsTheSame(t *testing.T) {
	s := set{dir: t.TempDir(), lists: 1, entries: 2000}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(s.list(0))
	if err != nil {
		t.Fatal(err)
	}
	var bare []bareEntry
	if err := readBare(bytes.NewReader(doc), func(e *bareEntry) { bare = append(bare, *e) }); err != nil {
		t.Fatal(err)
	}
	i := 0
	for e, err := range resourcesync.NewDecoder(bytes.NewReader(doc)).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		want := bareEntry{loc: e.Loc, mediaType: e.Type, lastMod: e.LastMod.Time(), length: e.Length.Int64()}
		want.md5, want.sha256 = sums(fmt.Sprintf("object-%07d", i))
		if e.Digests.String() != fmt.Sprintf("md5:%x sha-256:%x", want.md5, want.sha256) {
			t.Fatalf("entry %d: got digests %s", i, e.Digests)
		}
		if i >= len(bare) || bare[i] != want {
			t.Fatalf("entry %d: got %d entries, want %+v in its place", i, len(bare), want)
		}
		i++
	}
	if i != s.entries || len(bare) != i {
		t.Errorf("got %d entries, %d without checks, want %d", i, len(bare), s.entries)
	}
}
