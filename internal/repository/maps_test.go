package repository

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/internal/catalog"
	"instep/internal/oaipmh"
)

// items are those of sets.
type items map[catalog.SetID][]catalog.Item

func (all items) Items(_ context.Context, set catalog.SetID, kind string, from int64) iter.Seq2[catalog.Item, error] {
	return func(yield func(catalog.Item, error) bool) {
		for _, it := range all[set] {
			if it.Kind == kind && it.Number >= from && !yield(it, nil) {
				return
			}
		}
	}
}

func itemOfMap(number int64, name, at string) catalog.Item {
	return catalog.Item{Kind: mapKind, Number: number, Body: fmt.Sprintf(`{"Number":%d,"Key":%q,"Keys":["maps/%s.atom"],"At":%q}`, number, name, name, at)}
}

// TestResourceMapsAreRecords: they are listed in their own format and in oai_dc, by set and
// time, and answered for one by one. One that is gone, or too large for a record, is none.
func TestResourceMapsAreRecords(t *testing.T) {
	w := newWorld(t)
	all := items{w.sets[0]: nil, w.sets[1]: {itemOfMap(3, "c", "2026-01-04T00:00:00Z")}}
	files := fstest.MapFS{"maps/c.atom": {Data: []byte(declaration + "<entry>c</entry>\n")}}
	for i := range int64(5) {
		name := string(rune('l' + i))
		all[w.sets[0]] = append(all[w.sets[0]], itemOfMap(10+i, name, fmt.Sprintf("2026-01-0%dT00:00:00Z", 1+i)))
		files["maps/"+name+".atom"] = &fstest.MapFile{Data: []byte(declaration + "<entry>" + name + "</entry>\n")}
	}
	delete(files, "maps/o.atom")
	files["maps/p.atom"].Data = make([]byte, oaipmh.MaxRecord+1)
	p := &Published{Catalog: w.db.Facts, BaseURL: "https://example.org/", Files: fstest.MapFS{}, Maps: &Maps{Items: all, Files: files},
		Shown: []PublishedSet{{ID: w.sets[0], Name: "maps"}, {ID: w.sets[1], Name: "books"}}}

	list := func(s oaipmh.Selection, after string) (got []string) {
		for it, err := range p.List(t.Context(), s, after, true) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(strings.TrimPrefix(it.Identifier, "https://example.org/maps/"), " ", it.Datestamp, it.Sets, " ", it.Place, " ", string(it.Metadata)))
		}
		return got
	}
	whole := []string{
		"l.atom#record10 2026-01-01T00:00:00Z [maps] 0r10 <entry>l</entry>\n", "m.atom#record11 2026-01-02T00:00:00Z [maps] 0r11 <entry>m</entry>\n",
		"n.atom#record12 2026-01-03T00:00:00Z [maps] 0r12 <entry>n</entry>\n", "c.atom#record3 2026-01-04T00:00:00Z [books] 1r3 <entry>c</entry>\n",
	}
	day := func(n int) oaipmh.Stamp { return oaipmh.Stamp{Time: time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)} }
	for name, c := range map[string]struct {
		s     oaipmh.Selection
		after string
		want  []string
	}{
		"all":          {oaipmh.Selection{Prefix: "rem_atom"}, "", whole},
		"after one":    {oaipmh.Selection{Prefix: "rem_atom"}, "0r11", whole[2:]},
		"of a set":     {oaipmh.Selection{Prefix: "rem_atom", Set: "books"}, "", whole[3:]},
		"from, until":  {oaipmh.Selection{Prefix: "rem_atom", From: day(2), Until: day(3)}, "", whole[1:3]},
		"other format": {oaipmh.Selection{Prefix: "other"}, "", nil},
	} {
		if d := cmp.Diff(list(c.s, c.after), c.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", name, d)
		}
	}
	if dc := list(oaipmh.Selection{Prefix: "oai_dc"}, ""); len(dc) != 4 || !strings.Contains(dc[0], "<dc:identifier>https://example.org/maps/l.atom</dc:identifier>") {
		t.Errorf("as oai_dc: %q", dc)
	}
	formats, err := p.Formats(t.Context(), "")
	if err != nil || len(formats) != 2 || formats[1] != mapFormat {
		t.Errorf("formats %v, %v", formats, err)
	}
	r, err := p.Record(t.Context(), "https://example.org/maps/c.atom#record3", "rem_atom")
	if err != nil || string(r.Metadata) != "<entry>c</entry>\n" {
		t.Errorf("got %+v, %v", r, err)
	}
	for identifier, want := range map[string]oaipmh.Code{
		"https://example.org/maps/c.atom#record4": oaipmh.IDDoesNotExist, "https://example.org/maps/c.atom#record-3": oaipmh.IDDoesNotExist,
		"https://example.org/maps/l.atom#record3": oaipmh.IDDoesNotExist, "https://example.org/maps/o.atom#record13": oaipmh.IDDoesNotExist,
		"https://example.org/maps/p.atom#record14": oaipmh.IDDoesNotExist, "https://example.org/maps/c.atom#record03": oaipmh.IDDoesNotExist,
		"#record99999999999999999999": oaipmh.IDDoesNotExist, "#record": oaipmh.IDDoesNotExist,
	} {
		if _, err := p.Record(t.Context(), identifier, "rem_atom"); !errors.Is(err, want) {
			t.Errorf("%s: got %v", identifier, err)
		}
	}
	if _, err := p.Record(t.Context(), "https://example.org/maps/c.atom#record3", "marc"); !errors.Is(err, oaipmh.CannotDisseminateFormat) {
		t.Errorf("another format: %v", err)
	}
}
