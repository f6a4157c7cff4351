package spool

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/resourcesync"
)

func collect[T any](t interface{ Fatal(...any) }, l *Log[T]) []T {
	var all []T
	for r, err := range l.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

type record struct {
	Name  string
	N     int64
	U     uint8
	F     float64
	OK    bool
	Bytes []byte
	Sum   [4]byte
	Pair  [2]string
	At    time.Time
	More  []record
	Inner *record
}

func records() *rapid.Generator[record] {
	return rapid.Custom(func(t *rapid.T) record {
		r := record{
			Name: string(rapid.SliceOf(rapid.Byte()).Draw(t, "name")), // not always UTF-8
			N:    rapid.Int64().Draw(t, "n"), U: rapid.Byte().Draw(t, "u"), F: rapid.Float64().Draw(t, "f"),
			OK: rapid.Bool().Draw(t, "ok"), Sum: [4]byte{1, 2}, Pair: [2]string{"", rapid.String().Draw(t, "pair")},
			At: time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "at"), 5).UTC(),
		}
		switch rapid.IntRange(0, 5).Draw(t, "more") {
		case 0:
			r.Bytes = make([]byte, rapid.IntRange(0, 30_000).Draw(t, "bytes"))
		case 1:
			r.More = []record{{Name: "in"}, {}}
		case 2:
			r.More = []record{}
		case 3:
			r.Inner = &record{N: -1, Inner: &record{}}
		}
		return r
	})
}

func TestLogYieldsWhatWasAppendedInOrder(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		l := NewLog[record](dir).Hold(rapid.IntRange(0, 8).Draw(t, "hold"))
		defer l.Close()
		var want []record
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			for _, r := range rapid.SliceOfN(records(), 0, 12).Draw(t, "records") {
				if err := l.Append(r); err != nil {
					t.Fatal(err)
				}
				want = append(want, r)
			}
			for range 2 {
				if got := collect(t, l); !reflect.DeepEqual(got, want) {
					t.Fatalf("records differ (-got +want):\n%s", cmp.Diff(got, want))
				}
			}
			if l.Len() != int64(len(want)) {
				t.Fatalf("Len: got %d, want %d", l.Len(), len(want))
			}
		}
	})
}

func TestLogRefusesWhatItWouldLose(t *testing.T) {
	type hidden struct{ name string }
	type embeds struct {
		time.Time
		Other int
	}
	for name, err := range map[string]error{
		"hidden field":  NewLog[hidden]("").Append(hidden{"x"}),
		"map":           NewLog[map[string]int]("").Append(nil),
		"interface":     NewLog[[]any]("").Append(nil),
		"embedded form": NewLog[embeds]("").Append(embeds{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLogKeepsValuesOfTheStandard(t *testing.T) {
	at, err := resourcesync.ParseDatetime("2013-01-03T09:00:00.120+01:00")
	if err != nil {
		t.Fatal(err)
	}
	const two = "md5:1584abdf8ebdc9802ac0c6a7402c03b6 sha-256:854f61290e2e197a11bc91063afce22e43f8ccc655237050ace766adc68dc784"
	digests, err := resourcesync.ParseDigests(two)
	if err != nil {
		t.Fatal(err)
	}
	many, err := resourcesync.ParseDigests(two + " sha-384:" + strings.Repeat("0a", 48) + " sha-512:" + strings.Repeat("0b", 64))
	if err != nil {
		t.Fatal(err)
	}
	priority, err := resourcesync.ParsePriority("0.50")
	if err != nil {
		t.Fatal(err)
	}
	want := []resourcesync.Entry{{}, {
		Loc: "http://example.org/a?b=<c>&d", LastMod: at, Priority: priority, ChangeFreq: resourcesync.Daily, Line: 7,
		Metadata: resourcesync.Metadata{
			Change: resourcesync.Updated, Datetime: at, Digests: digests, Length: resourcesync.Bytes(0), Type: "text/html",
			Attrs: []resourcesync.Attr{{Space: "http://example.org/ns", Name: "x", Value: "\u2028"}},
		},
		Links: []resourcesync.Link{{Rel: "duplicate", Href: "http://mirror.example.org/a", Pri: 1, Modified: at, Length: resourcesync.Bytes(5)}},
	}, {Loc: "http://example.org/many", Metadata: resourcesync.Metadata{Digests: many, Datetime: at}}}
	l := NewLog[resourcesync.Entry](t.TempDir())
	defer l.Close()
	for _, e := range want {
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	same := cmp.Options{
		cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a == b }),
		cmp.Comparer(func(a, b resourcesync.Digest) bool { return a == b }),
		cmp.Comparer(func(a, b resourcesync.Length) bool { return a == b }),
		cmp.Comparer(func(a, b resourcesync.Priority) bool { return a == b }),
	}
	if diff := cmp.Diff(collect(t, l), want, same); diff != "" {
		t.Errorf("entries differ (-got +want):\n%s", diff)
	}
}

// A record is found by its place while others are appended, in memory or in the file.
func TestLogFindsRecordsByTheirPlaces(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		l := NewLog[record](dir)
		defer l.Close()
		var want []record
		var places []Place
		for _, r := range rapid.SliceOfN(records(), 1, 30).Draw(t, "records") {
			p, err := l.AppendAt(r)
			if err != nil {
				t.Fatal(err)
			}
			want, places = append(want, r), append(places, p)
			i := rapid.IntRange(0, len(want)-1).Draw(t, "record")
			if got, err := l.At(places[i]); err != nil || !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("record %d of %d differs (-got +want): %v\n%s", i, len(want), err, cmp.Diff(got, want[i]))
			}
		}
		if got := collect(t, l); !reflect.DeepEqual(got, want) {
			t.Fatalf("records differ (-got +want):\n%s", cmp.Diff(got, want))
		}
	})
}

func TestClosedLogHasNoRecords(t *testing.T) {
	l := NewLog[string](t.TempDir())
	p, err := l.AppendAt("x")
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.At(p); err == nil {
		t.Error("At after Close: no error")
	}
}
