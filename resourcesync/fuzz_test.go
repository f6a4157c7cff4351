package resourcesync

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// reading is all that a Decoder says of a document.
type reading struct {
	header  Header
	entries []Entry // of one that can't be used, only the line
	bad     []*DecodeError
	notes   []Note
	err     error // what ended the document
}

func read(r io.Reader, opts ...Option) (got reading) {
	opts = append([]Option{WithNotes(func(n Note) { got.notes = append(got.notes, n) })}, opts...)
	d := NewDecoder(r, opts...)
	for e, err := range d.Entries() {
		switch bad, _ := errors.AsType[*DecodeError](err); {
		case err == nil:
			got.entries = append(got.entries, e)
		case errors.Is(err, BadEntry):
			got.entries = append(got.entries, e)
			got.bad = append(got.bad, bad)
		default:
			got.err = err
		}
	}
	if got.err == nil {
		got.header, got.err = d.Header()
	}
	return got
}

// illegal reports whether something was noted that the standard does not allow.
func (r *reading) illegal() bool {
	for _, n := range r.notes {
		if !n.Legal {
			return true
		}
	}
	return false
}

// same compares values of documents by what they mean.
var same = cmp.Options{exact, cmpopts.EquateEmpty()}

// fuzzLimits bound the documents of fuzzing: a small archive unpacks to no more.
var fuzzLimits = WithLimits(Limits{Bytes: 1 << 20})

func FuzzDecoder(f *testing.F) {
	for _, doc := range kinds(f) {
		f.Add([]byte(doc))
	}
	f.Add([]byte(list1 + "<url><loc>https://example.org/&#x20AC;]]&gt;</loc></url>" + end1))
	f.Add([]byte(zip(f, list1+url1+end1)))
	f.Add([]byte("\xff\xfe" + toUTF16(list1+url1+end1, false)))
	f.Add([]byte(`<?xml version="1.0" encoding="iso-8859-1"?>` + list1 + "\xe9" + end1))
	addCorpus[[]byte](f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		checkCost(t, doc)
		got := read(bytes.NewReader(doc), fuzzLimits)
		checkPlaces(t, got)
		checkValues(t, got)
		chunked := read(iotest.OneByteReader(bytes.NewReader(doc)), fuzzLimits)
		checkSame(t, "read byte by byte", chunked, got)
		if (chunked.err == nil) != (got.err == nil) {
			t.Fatalf("read byte by byte: got error %v, want %v", chunked.err, got.err)
		}
		checkStrict(t, doc, got)
		if got.err == nil {
			checkWritten(t, got)
		}
	})
}

// checkCost decodes a document within bounds of memory and time.
func checkCost(t *testing.T, doc []byte) {
	size := len(doc)
	if bytes.HasPrefix(doc, gzipMagic) {
		size = 1 << 20
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range NewDecoder(bytes.NewReader(doc), fuzzLimits).Entries() {
	}
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	if most := uint64(1<<20 + 256*size); after.TotalAlloc-before.TotalAlloc > most {
		t.Fatalf("%d bytes took %d bytes of memory, want at most %d", size, after.TotalAlloc-before.TotalAlloc, most)
	}
	if elapsed > 10*time.Second {
		t.Fatalf("%d bytes took %s", size, elapsed)
	}
}

// checkPlaces checks that whatever is told of a document has a place and a sentence.
func checkPlaces(t *testing.T, got reading) {
	told := got.bad
	if got.err != nil {
		e, ok := errors.AsType[*DecodeError](got.err)
		if !ok {
			t.Fatalf("error without a place: %v", got.err)
		}
		told = append(told, e)
	}
	for _, e := range told {
		if e.Kind < NotWellFormed || e.Kind > BadEntry || e.Line < 1 || e.Column < 1 || e.Offset < 0 || e.Msg == "" {
			t.Fatalf("error without kind, place or sentence: %+v", e)
		}
	}
	for _, n := range got.notes {
		if n.Line < 1 || n.Column < 1 || n.Msg == "" || n.Quirk == 0 && n.Rule == "" && n.Legal {
			t.Fatalf("note without a place, a sentence or a reason: %+v", n)
		}
	}
}

// checkSame compares two readings of one document, as far as both of them got.
func checkSame(t *testing.T, how string, got, want reading) {
	t.Helper()
	if reflect.DeepEqual(got.entries, want.entries) && reflect.DeepEqual(got.header, want.header) {
		return // the usual case, and much faster
	}
	if diff := cmp.Diff(got.entries, want.entries, same) + cmp.Diff(got.header, want.header, same); diff != "" {
		t.Fatalf("%s (-got +want):\n%s", how, diff)
	}
}

// checkStrict checks that strict reading accepts what lenient reading accepts without
// a note of something that is not allowed, and reads it alike.
func checkStrict(t *testing.T, doc []byte, lenient reading) {
	strict := read(bytes.NewReader(doc), fuzzLimits, WithTolerance(Strict))
	if strict.illegal() && !errors.Is(strict.err, Refused) && lenient.err == nil {
		t.Fatalf("strict: noted %+v and got %v", strict.notes, strict.err)
	}
	if lenient.illegal() && strict.err == nil {
		t.Fatalf("strict accepts what lenient reading notes: %+v", lenient.notes)
	}
	if !lenient.illegal() && lenient.err == nil {
		if strict.err != nil {
			t.Fatalf("strict refuses what lenient reading has no note of: %v", strict.err)
		}
		checkSame(t, "strict", strict, lenient)
	}
}

// checkWritten writes what was read. What an Encoder takes is a document that
// strict reading accepts, and means the same; the rest it refuses with a reason.
func checkWritten(t *testing.T, got reading) {
	want := reading{header: got.header}
	var b strings.Builder
	enc, err := NewEncoder(&b, got.header)
	if err != nil {
		return
	}
	for _, e := range got.entries {
		if enc.Encode(e) == nil {
			want.entries = append(want.entries, e)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	again := read(strings.NewReader(b.String()), WithTolerance(Strict))
	if again.err != nil || len(again.bad) > 0 {
		t.Fatalf("written again: %v, %v\n%s", again.err, again.bad, b.String())
	}
	for i := range again.entries {
		again.entries[i].Line = want.entries[i].Line
	}
	want.header.Dialect = Dialect11
	checkSame(t, "written again", again, want)
}

// checkValues checks that no value is one that its type does not allow.
func checkValues(t *testing.T, got reading) {
	all := append([]Entry{{Metadata: got.header.Metadata, Links: got.header.Links}}, got.entries...)
	for i := range all {
		e := &all[i]
		if e.ChangeFreq != "" && !e.ChangeFreq.Known() {
			t.Fatalf("changefreq %q", e.ChangeFreq)
		}
		if p, err := ParsePriority(e.Priority.String()); !e.Priority.IsZero() && (err != nil || p != e.Priority) {
			t.Fatalf("priority %q: %v", e.Priority, err)
		}
		if e.Change != "" && e.Change != Created && e.Change != Updated && e.Change != Deleted {
			t.Fatalf("change %q", e.Change)
		}
		checkDatetimes(t, e.LastMod, e.At, e.Completed, e.From, e.Until, e.Metadata.Datetime)
		checkRepresentation(t, e.Digests, e.Length)
		for j := range e.Links {
			l := &e.Links[j]
			if l.Rel == "" || l.Href == "" || hasControl([]byte(l.Href)) || l.Pri < 0 || l.Pri > maxPri {
				t.Fatalf("link %+v", l)
			}
			checkDatetimes(t, l.Modified)
			checkRepresentation(t, l.Digests, l.Length)
		}
		if i > 0 && e.Line < 1 || hasControl([]byte(e.Loc)) {
			t.Fatalf("entry %+v", e)
		}
	}
}

func checkDatetimes(t *testing.T, ds ...Datetime) {
	for _, d := range ds {
		if d.IsZero() {
			continue
		}
		if again, err := ParseDatetime(d.String()); err != nil || again != d {
			t.Fatalf("datetime %q: %v", d, err)
		}
	}
}

func checkRepresentation(t *testing.T, ds Digests, n Length) {
	if again, err := ParseDigests(ds.String()); err != nil || !cmp.Equal(again, ds, same) {
		t.Fatalf("digests %q: read again as %q, %v", ds, again, err)
	}
	if n.Known() != (n.Int64() >= 0) {
		t.Fatalf("length %d", n.Int64())
	}
}

// FuzzDialects reads documents of all dialects, each also as one of edition 1.0,
// which no document tells by itself.
func FuzzDialects(f *testing.F) {
	for _, doc := range fixtures(f) {
		f.Add([]byte(doc))
	}
	addCorpus[[]byte](f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, opts := range [][]Option{{fuzzLimits}, {fuzzLimits, AsDialect(Dialect10)}} {
			got := read(bytes.NewReader(doc), opts...)
			checkPlaces(t, got)
			checkValues(t, got)
			if got.header.Dialect > DialectResync {
				t.Fatalf("dialect %s", got.header.Dialect)
			}
			if got.err == nil {
				checkWritten(t, got)
			}
		}
	})
}
