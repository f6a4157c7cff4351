package resourcesync

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func FuzzDecoder(f *testing.F) {
	for _, doc := range maps.Collect(kinds(f)) {
		f.Add([]byte(doc))
	}
	f.Add([]byte(list1 + "<url><loc>https://example.org/&#x20AC;]]&gt;</loc></url>" + end1))
	f.Add([]byte(zip(f, list1+url1+end1)))
	f.Add([]byte("\xff\xfe" + toUTF16(list1+url1+end1, false)))
	f.Add([]byte(`<?xml version="1.0" encoding="iso-8859-1"?>` + list1 + "\xe9" + end1))
	f.Fuzz(func(t *testing.T, doc []byte) {
		limits := WithLimits(Limits{Bytes: 1 << 20})
		header, entries, _, err := decode(string(doc), limits)
		chunked, chunkedErr := readAll(iotest.OneByteReader(strings.NewReader(string(doc))))
		if err != nil {
			if _, ok := errors.AsType[*DecodeError](err); !ok {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		if chunkedErr != nil || !slices.EqualFunc(chunked, entries, func(a, b Entry) bool { return cmp.Equal(a, b, exact) }) {
			t.Fatalf("read byte by byte: %v\n%+v\n%+v", chunkedErr, chunked, entries)
		}
		// What passes strict reading and can be written is read back the same.
		if _, _, _, err := decode(string(doc), limits, WithTolerance(Strict)); err != nil {
			return
		}
		var b strings.Builder
		enc, err := NewEncoder(&b, header)
		if err != nil {
			return
		}
		for _, e := range entries {
			if enc.Encode(e) != nil {
				return
			}
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		header2, entries2, _, err := decode(b.String(), WithTolerance(Strict))
		if err != nil {
			t.Fatalf("written again: %v\n%s", err, b.String())
		}
		for i := range entries2 {
			entries2[i].Line = entries[i].Line
		}
		if diff := cmp.Diff(header2, header, exact, cmpopts.EquateEmpty()) + cmp.Diff(entries2, entries, exact, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("written again (-again +first):\n%s", diff)
		}
	})
}
