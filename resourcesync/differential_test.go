package resourcesync

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAgreesWithOtherParsers reads generated and damaged documents here, with
// encoding/xml and with expat. Whatever two of them accept has the same entries;
// whatever only one accepts has a reason that is listed. INSTEP_SEED repeats a run.
func TestAgreesWithOtherParsers(t *testing.T) {
	seed := uint64(1)
	if s := os.Getenv("INSTEP_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("INSTEP_SEED=%q: expected a number", s)
		}
	}
	d := differential{t: t, expat: startExpat(t), counts: make(map[string]int)}
	m := mutator{rand.New(rand.NewPCG(seed, 0))}
	n := documentCount(t, 5_000)
	sources := slices.Sorted(maps.Values(fixtures(t)))
	for i := range n {
		if i%4 == 0 {
			sources[i/4%40] = generated(t, int(seed)+i)
		}
		d.compare(m.mutate(sources[m.IntN(len(sources))]))
		if t.Failed() {
			t.Fatalf("document %d of INSTEP_SEED=%d", i, seed)
		}
	}
	t.Logf("%d documents with INSTEP_SEED=%d:", n, seed)
	for _, what := range slices.Sorted(maps.Keys(d.counts)) {
		t.Logf("%7d  %s", d.counts[what], what)
	}
	for _, what := range []string{acceptedByAll, agreedOnValues} {
		if d.counts[what] < n/4 {
			t.Errorf("only %d of %d documents: %s", d.counts[what], n, what)
		}
	}
}

// generated is a document of the generator as it is written.
func generated(t *testing.T, seed int) string {
	doc := genDocument().Example(seed)
	return string(encodeDocument(t, doc))
}

const (
	acceptedByAll  = "accepted by all, with the same entries"
	agreedOnValues = "accepted here and by expat, with all values as written"
)

// differential compares readings of documents and counts what came of it.
type differential struct {
	t      *testing.T
	expat  *expat
	counts map[string]int
}

// sample is a document and what the parsers say of it.
type sample struct {
	doc              []byte
	ours             reading
	std, expat       []event
	stdErr, expatErr error
}

func (d *differential) compare(doc []byte) {
	t := d.t
	s := sample{doc: doc, ours: read(bytes.NewReader(doc))}
	s.std, s.stdErr = stdEvents(doc)
	s.expat, s.expatErr = d.expat.events(doc)
	if s.expatErr != nil && !errors.Is(s.expatErr, errRefused) {
		t.Fatal(s.expatErr)
	}
	switch {
	case s.ours.err != nil && s.expatErr != nil:
		d.counts["refused here and by expat"]++
	case s.ours.err != nil:
		d.explain(&s, "refused here, accepted by expat", refusals, s.ours.err)
	case s.expatErr != nil:
		d.explain(&s, "accepted here, refused by expat", expatRefusals, s.expatErr)
	case s.noted(otherEncoding):
		d.counts["accepted by all, an encoding is declared that is not the document's: not compared"]++
		return
	default:
		d.same(&s, "expat", s.expat)
		d.sameValues(&s)
	}
	switch {
	case s.ours.err == nil && s.stdErr != nil:
		d.explain(&s, "accepted here, refused by encoding/xml", stdRefusals, s.stdErr)
	case s.ours.err == nil && s.expatErr == nil:
		if !spaceByReference.Match(doc) { // it does not tell these from others
			d.same(&s, "encoding/xml", s.std)
		}
		d.counts[acceptedByAll]++
	case s.ours.err != nil && s.expatErr != nil && s.stdErr == nil:
		d.explain(&s, "refused here and by expat, accepted by encoding/xml", stdLeniences, s.ours.err)
	}
}

// same checks that a document means the same when another parser has read it and
// it was written again, in the plainest way.
func (d *differential) same(s *sample, parser string, events []event) {
	plain := plainXML(events)
	got, want := neutral(read(strings.NewReader(plain))), neutral(s.ours)
	if diff := cmp.Diff(want, got, same, cmp.AllowUnexported(neutralReading{})); diff != "" {
		d.t.Errorf("read otherwise than %s does (-ours +theirs):\n%s\n%q\n%q", parser, diff, s.doc, plain)
	}
}

// neutralReading is a reading without what depends on how a document is written.
type neutralReading struct {
	header  Header
	entries []Entry
	bad     []string
	notes   []Note
	err     error
}

func neutral(r reading) neutralReading {
	n := neutralReading{header: r.header, err: r.err}
	n.header.Foreign = shape(n.header.Foreign)
	for _, e := range r.entries {
		e.Line, e.Foreign = 0, shape(e.Foreign)
		n.entries = append(n.entries, e)
	}
	for _, e := range r.bad {
		n.bad = append(n.bad, e.Msg)
	}
	for _, note := range r.notes {
		if note.Rule != "xml-well-formed" && note.Quirk != QuirkPrefix { // the declaration is not written again
			n.notes = append(n.notes, Note{Quirk: note.Quirk, Rule: note.Rule, Legal: note.Legal})
		}
	}
	return n
}

// shape is elements of other vocabularies without their prefixes.
func shape(foreign string) string {
	events, err := stdEvents([]byte("<x>" + foreign + "</x>"))
	if err != nil {
		return foreign
	}
	return plainXML(events)
}

// plainEntry is an entry, or the root, as text: what is written in it and no more.
type plainEntry struct {
	Fields      map[string]string
	MD          map[string]string
	Links       []map[string]string
	Foreign     int
	ForeignText string
}

// sameValues compares the values of a document in which nothing was tolerated with
// those that expat has read.
func (d *differential) sameValues(s *sample) {
	if len(s.ours.bad) > 0 || s.ours.illegal() || slices.ContainsFunc(s.ours.notes, rewrites) {
		return
	}
	d.counts[agreedOnValues]++
	root := Entry{Metadata: s.ours.header.Metadata, Links: s.ours.header.Links, Foreign: s.ours.header.Foreign}
	got := []plainEntry{plainOf(&root)}
	for i := range s.ours.entries {
		got = append(got, plainOf(&s.ours.entries[i]))
	}
	if diff := cmp.Diff(got, plainOfEvents(s.expat), same); diff != "" {
		d.t.Errorf("values (-ours +expat):\n%s\n%q", diff, s.doc)
	}
}

// rewrites reports whether a note reports a value that is read as another one.
func rewrites(n Note) bool {
	return n.Rule == "ln-rel-registered-or-uri" || n.Rule == "hash-algorithm-unknown"
}

func plainOf(e *Entry) plainEntry {
	p := plainEntry{
		Fields: fields("loc", e.Loc, "lastmod", e.LastMod.String(), "changefreq", string(e.ChangeFreq), "priority", e.Priority.String()),
		MD:     plainMetadata(&e.Metadata),
	}
	plainForeign(&p, e.Foreign)
	addForeignAttrs(p.MD, e.Attrs)
	for _, l := range e.Links {
		link := fields("rel", l.Rel, "href", l.Href, "modified", l.Modified.String(), "hash", l.Digests.String(),
			"length", lengthText(l.Length), "type", l.Type, "encoding", l.Encoding, "path", l.Path)
		if l.Pri > 0 {
			link["pri"] = strconv.Itoa(l.Pri)
		}
		addForeignAttrs(link, l.Attrs)
		p.Links = append(p.Links, link)
	}
	return p
}

// fields are names and values in turn, without those that are absent.
func fields(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	return m
}

func lengthText(n Length) string {
	text, _ := n.MarshalText() // it has no error
	return string(text)
}

func addForeignAttrs(m map[string]string, attrs []Attr) {
	for _, a := range attrs {
		m["{"+a.Space+"}"+a.Name] = a.Value
	}
}

func plainForeign(p *plainEntry, foreign string) {
	events, err := stdEvents([]byte("<x>" + foreign + "</x>"))
	if err != nil {
		p.ForeignText = err.Error()
		return
	}
	for _, e := range events[1 : len(events)-1] {
		if e.kind == '<' {
			p.Foreign++
		}
		p.ForeignText += e.text
	}
}

// plainOfEvents returns the root and the entries of a document, taken from its
// events by the simplest reading of 1.1 §7.
func plainOfEvents(events []event) []plainEntry {
	var r plainReader
	r.add()
	for _, e := range events {
		switch e.kind {
		case '<':
			r.start(e)
		case '>':
			r.end()
		default:
			r.text += e.text
			if r.foreign > 0 {
				r.owner().ForeignText += e.text
			}
		}
	}
	return r.all
}

type plainReader struct {
	all     []plainEntry // the root, then the entries
	path    []xml.Name   // of the open elements
	foreign int          // how many of them are of other vocabularies, or in one that is
	text    string       // since the last start tag
}

func (r *plainReader) add() {
	r.all = append(r.all, plainEntry{Fields: map[string]string{}, MD: map[string]string{}})
}

func (r *plainReader) inEntry() bool { return len(r.path) > 1 && isEntry(r.path[1]) }

// owner is the entry that the open element is in, or the root.
func (r *plainReader) owner() *plainEntry {
	if r.inEntry() {
		return &r.all[len(r.all)-1]
	}
	return &r.all[0]
}

func (r *plainReader) start(e event) {
	r.path, r.text = append(r.path, e.name), ""
	depth := len(r.path)
	isChild := depth == 2 || depth == 3 && r.inEntry()
	switch {
	case r.foreign > 0 || isChild && !ours(e.name) && e.name.Space != "":
		r.foreign++
		r.owner().Foreign++
	case depth == 2 && isEntry(e.name):
		r.add()
	case isChild && e.name.Space == nsRS:
		plainRS(r.owner(), e)
	}
}

func (r *plainReader) end() {
	last := len(r.path) - 1
	if name := r.path[last]; last == 2 && name.Space == nsSitemap && r.inEntry() {
		maps.Copy(r.owner().Fields, fields(name.Local, strings.Trim(r.text, xmlSpace)))
	}
	r.path, r.foreign = r.path[:last], max(0, r.foreign-1)
}

func ours(n xml.Name) bool { return n.Space == nsSitemap || n.Space == nsRS }

func isEntry(n xml.Name) bool {
	return n.Space == nsSitemap && (n.Local == "url" || n.Local == "sitemap")
}

// plainRS takes an rs:md or rs:ln.
func plainRS(p *plainEntry, e event) {
	values := make(map[string]string)
	for _, a := range e.attrs {
		v := a.Value
		switch {
		case a.Space != "":
			addForeignAttrs(values, []Attr{a})
			continue
		case a.Name == "hash":
			v = strings.ToLower(strings.Join(strings.Fields(v), " "))
		case a.Name == "length" || a.Name == "pri":
			n, err := strconv.ParseInt(strings.Trim(v, xmlSpace), 10, 64)
			if err == nil {
				v = strconv.FormatInt(n, 10)
			}
		case a.Name != "path":
			v = strings.Trim(v, xmlSpace)
		}
		values[a.Name] = v
	}
	if e.name.Local == "md" {
		p.MD = values
	} else {
		p.Links = append(p.Links, values)
	}
}

func (d *differential) explain(s *sample, what string, reasons []reason, err error) {
	for _, r := range reasons {
		if r.applies(s) {
			d.counts[fmt.Sprintf("%s: %s", what, r.name)]++
			return
		}
	}
	d.t.Errorf("%s, and no reason is listed: %v\n%q", what, err, s.doc)
}
