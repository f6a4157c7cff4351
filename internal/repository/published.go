package repository

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"instep/internal/catalog"
	"instep/internal/oaipmh"
	"instep/internal/scan"
	"instep/resourcesync"
)

// Catalog is the part of a catalog that Published needs, as *catalog.Facts implements it.
type Catalog interface {
	Lookup(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Resource, error)
	MembersFrom(ctx context.Context, set catalog.SetID, id int64, n int) ([]catalog.Resource, error)
	Changes(ctx context.Context, set catalog.SetID, after, through int64) iter.Seq2[catalog.Change, error]
	LastSeq(ctx context.Context, set catalog.SetID) (int64, time.Time, error)
	Deletions(ctx context.Context, set catalog.SetID, uris []string) ([]catalog.Change, error)
}

// PublishedSet is a published set, whose resources are records of the OAI-PMH repository.
type PublishedSet struct {
	ID      catalog.SetID
	Name    string // name of the set, which is also the setSpec; "" for the default set, which has no setSpec
	Title   string
	Harvest *Key // Key of the Store of a harvested set; nil for any other set
}

// Published is the OAI-PMH repository of a publication. The identifier of a record is the
// URI of the resource, and the datestamp is the time of its last change. Harvested
// records keep their identifier and their metadata format. All records are available as
// oai_dc, too. Each Resource Map has a record, too. Deletions are listed as long as they
// are in the change log.
type Published struct {
	Catalog Catalog
	Shown   []PublishedSet
	Stores  map[Key]*Store // the Store of each harvested set
	Files   fs.FS          // the published directory
	Maps    *Maps          // nil if the publication has no Resource Maps
	BaseURL string         // of the publication
	Name    string
	Emails  []string
}

var _ oaipmh.Repository = (*Published)(nil)

// Identity implements oaipmh.Repository.
func (p *Published) Identity(context.Context) (oaipmh.Identity, error) {
	return oaipmh.Identity{Name: p.Name, Emails: p.Emails, Deleted: oaipmh.DeletedTransient, Earliest: oaipmh.Stamp{Time: time.Unix(0, 0).UTC()}}, nil
}

// Every repository must support the metadata format of Dublin Core (OAI-PMH 2.0 §3.4).
var oaiDC = oaipmh.Format{Prefix: "oai_dc", Schema: "http://www.openarchives.org/OAI/2.0/oai_dc.xsd", Namespace: "http://www.openarchives.org/OAI/2.0/oai_dc/"}

// Formats implements oaipmh.Repository.
func (p *Published) Formats(ctx context.Context, identifier string) ([]oaipmh.Format, error) {
	formats := []oaipmh.Format{oaiDC}
	if identifier == "" {
		for i := range p.Shown {
			f, ok, err := p.format(ctx, &p.Shown[i])
			if err != nil {
				return nil, err
			}
			if ok && !slices.ContainsFunc(formats, func(g oaipmh.Format) bool { return g.Prefix == f.Prefix }) {
				formats = append(formats, f)
			}
		}
		some, err := p.hasMaps(ctx)
		if some {
			formats = append(formats, mapFormat)
		}
		return formats, err
	}
	if _, m, err := p.mapOf(ctx, identifier); m != nil || err != nil {
		return append(formats, mapFormat), err
	}
	e, err := p.find(ctx, identifier)
	if err != nil {
		return nil, err
	}
	if f, ok, err := p.format(ctx, &p.Shown[e.place.set]); err != nil || ok && f.Prefix != oaiDC.Prefix {
		return append(formats, f), err
	}
	return formats, nil
}

// format returns the metadata format of a harvested set, or false for any other set.
func (p *Published) format(ctx context.Context, s *PublishedSet) (f oaipmh.Format, ok bool, err error) {
	if s.Harvest == nil {
		return f, false, nil
	}
	at, err := p.Stores[*s.Harvest].progress(ctx)
	at.Format.Prefix = s.Harvest.Prefix
	at.Format.Schema = cmp.Or(at.Format.Schema, "http://www.w3.org/2001/XMLSchema.xsd")
	at.Format.Namespace = cmp.Or(at.Format.Namespace, "http://www.w3.org/XML/1998/namespace")
	return at.Format, true, err
}

// Sets implements oaipmh.Repository.
func (p *Published) Sets(context.Context) (sets []oaipmh.Set, err error) {
	for _, s := range p.Shown {
		if s.Name != "" {
			sets = append(sets, oaipmh.Set{Spec: s.Name, Name: cmp.Or(s.Title, s.Name)})
		}
	}
	return sets, nil
}

// place is the position of a record in a list. The list of a set has its members by ID, then
// the deletions in the change log, then the Resource Maps. If the log has all changes since
// the requested time, the list has these changes instead of members and deletions.
type place struct {
	set  int
	kind placeKind
	n    int64
}

type placeKind byte

const (
	amongMembers   placeKind = 'm'
	amongDeletions placeKind = 'd'
	amongChanges   placeKind = 'c'
	amongMaps      placeKind = 'r'
)

func (p place) String() string { return fmt.Sprintf("%d%c%d", p.set, p.kind, p.n) }

func parsePlace(text string, sets int) (p place, err error) {
	i := strings.IndexAny(text, "mdcr")
	if i < 0 {
		return p, &oaipmh.Error{Code: oaipmh.BadResumptionToken, Msg: "the resumption token is not one of this repository"}
	}
	p.kind = placeKind(text[i])
	var wrong error
	p.set, err = strconv.Atoi(text[:i])
	p.n, wrong = strconv.ParseInt(text[i+1:], 10, 64)
	if err != nil || wrong != nil || p.set < 0 || p.set >= sets || p.n < 0 || p.n == math.MaxInt64 {
		err = &oaipmh.Error{Code: oaipmh.BadResumptionToken, Msg: "the resumption token is not one of this repository"}
	}
	return p, err
}

// List implements oaipmh.Repository.
func (p *Published) List(ctx context.Context, s oaipmh.Selection, after string, metadata bool) iter.Seq2[oaipmh.Item, error] {
	return func(yield func(oaipmh.Item, error) bool) {
		l := lister{p: p, ctx: ctx, s: s, metadata: metadata, yield: yield}
		at, some := place{}, after != ""
		if some {
			var err error
			if at, err = parsePlace(after, len(p.Shown)); err != nil {
				yield(oaipmh.Item{}, err)
				return
			}
		}
		for i := at.set; i < len(p.Shown); i++ {
			if s.Set != "" && p.Shown[i].Name != s.Set {
				continue
			}
			from := place{set: i}
			if some && i == at.set {
				from = at
			}
			if err := l.yieldSet(from); err != nil {
				if !errors.Is(err, errEnough) {
					yield(oaipmh.Item{}, err)
				}
				return
			}
		}
	}
}

// listBatch is the number of records that are looked up together. It is small, because the
// last batch of a response usually has more records than the response has space for.
const listBatch = 125

// errEnough means that yield has returned false.
var errEnough = errors.New("enough")

type lister struct {
	p        *Published
	ctx      context.Context
	s        oaipmh.Selection
	metadata bool
	yield    func(oaipmh.Item, error) bool
	at       *PublishedSet
	index    int
}

// yieldSet yields the records of one set that come after a place (position in the list). A
// place without a kind is the beginning of the set.
func (l *lister) yieldSet(from place) error {
	l.index, l.at = from.set, &l.p.Shown[from.set]
	if from.kind == amongMaps {
		return l.yieldMaps(from.n)
	}
	if err := l.yieldResources(from); err != nil {
		return err
	}
	return l.yieldMaps(0)
}

func (l *lister) yieldResources(from place) error {
	if prefix := l.s.Prefix; prefix != oaiDC.Prefix && (l.at.Harvest == nil || l.at.Harvest.Prefix != prefix) {
		return nil
	}
	if from.kind == 0 {
		enough, seq, err := l.logReaches()
		if err != nil {
			return err
		}
		from.kind = amongMembers
		if enough {
			from.kind, from.n = amongChanges, seq
		}
	}
	if from.kind == amongMembers {
		if err := l.yieldMembers(from.n); err != nil {
			return err
		}
		from = place{set: from.set, kind: amongDeletions}
	}
	return l.yieldChanges(from)
}

// logReaches reports whether the change log has all changes since the argument "from" of the
// request. If so, it also returns the number of the last change before that time.
func (l *lister) logReaches() (enough bool, seq int64, err error) {
	if l.s.From.IsZero() {
		return false, 0, nil
	}
	first, err := l.changeAfter(0)
	if err != nil || first.Seq == 0 || !first.Datetime.Before(l.s.From.Time) {
		return false, 0, err // changes that the harvester needs may have been removed from the log
	}
	low := first.Seq // highest known number of a change before the requested time
	high, _, err := l.p.Catalog.LastSeq(l.ctx, l.at.ID)
	for err == nil && low < high { // binary search; each change with a greater number than "high" is at or after the requested time
		middle := low + (high-low)/2
		var c catalog.Change
		if c, err = l.changeAfter(middle); c.Seq == 0 || c.Seq > high || !c.Datetime.Before(l.s.From.Time) {
			high = middle
		} else {
			low = c.Seq
		}
	}
	return true, low, err
}

// changeAfter returns the first change in the log after the number seq, or the zero
// Change if there is none.
func (l *lister) changeAfter(seq int64) (catalog.Change, error) {
	for c, err := range l.p.Catalog.Changes(l.ctx, l.at.ID, seq, math.MaxInt64) {
		return c, err
	}
	return catalog.Change{}, nil
}

// selects reports whether a datestamp is within the period of the request. Datestamps are
// in seconds.
func (l *lister) selects(t time.Time) bool {
	t = t.Truncate(time.Second)
	return (l.s.From.IsZero() || !t.Before(l.s.From.Time)) && (l.s.Until.IsZero() || !t.After(l.s.Until.Time))
}

func (l *lister) yieldMembers(after int64) error {
	for {
		some, err := l.p.Catalog.MembersFrom(l.ctx, l.at.ID, after+1, listBatch)
		if err != nil || len(some) == 0 {
			return err
		}
		after = some[len(some)-1].ID
		some = slices.DeleteFunc(some, func(r catalog.Resource) bool { return !l.selects(r.Changed) })
		var found []entry
		for _, r := range some {
			found = append(found, entry{r, place{l.index, amongMembers, r.ID}, r.Changed, false})
		}
		if err := l.yieldRecords(found); err != nil {
			return err
		}
	}
}

type entry struct {
	catalog.Resource
	place   place
	changed time.Time
	deleted bool
}

// yieldChanges yields a record for each resource that changed after a place (position in
// the list). If the kind of the place is amongDeletions, it yields only the records of
// deleted resources.
func (l *lister) yieldChanges(from place) error {
	var some []catalog.Change
	flush := func() error {
		err := l.yieldLastChanges(some, from.kind)
		some = some[:0]
		return err
	}
	for c, err := range l.p.Catalog.Changes(l.ctx, l.at.ID, from.n, math.MaxInt64) {
		if err != nil {
			return err
		}
		if !l.s.Until.IsZero() && c.Datetime.Truncate(time.Second).After(l.s.Until.Time) {
			break
		}
		if from.kind == amongDeletions && c.Change != resourcesync.Deleted || !l.selects(c.Datetime) {
			continue
		}
		if some = append(some, c); len(some) == listBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// yieldLastChanges yields a record for each given change, except changes of resources
// that changed again later.
func (l *lister) yieldLastChanges(some []catalog.Change, kind placeKind) error {
	if len(some) == 0 {
		return nil
	}
	uris := make([]string, len(some))
	for i := range some {
		uris[i] = some[i].URI
	}
	now, err := l.p.Catalog.Lookup(l.ctx, l.at.ID, uris)
	if err != nil {
		return err
	}
	// Only the last deletion of a resource is listed: after a given change, the resource may
	// have been created and deleted again.
	last, err := l.p.Catalog.Deletions(l.ctx, l.at.ID, uris)
	if err != nil {
		return err
	}
	var found []entry
	for i, c := range some {
		deleted := c.Change == resourcesync.Deleted
		if deleted == now[i].Member || now[i].Member && !now[i].Changed.Equal(c.Datetime) || deleted && last[i].Seq != c.Seq {
			continue
		}
		e := entry{now[i], place{l.index, kind, c.Seq}, c.Datetime, deleted}
		e.URI = c.URI
		found = append(found, e)
	}
	return l.yieldRecords(found)
}

func (l *lister) yieldRecords(some []entry) error {
	records, err := l.p.recordsOf(l.ctx, l.index, some, l.s)
	if err != nil {
		return err
	}
	for i := range records {
		if records[i].Identifier == "" {
			continue
		}
		it := oaipmh.Item{Record: records[i], Place: some[i].place.String()}
		if l.metadata && !it.Deleted {
			it.Metadata, err = l.p.metadata(l.at, &some[i], l.s.Prefix)
			if errors.Is(err, fs.ErrNotExist) {
				continue // skip this record, because its file was removed; the next publication will list the deletion
			}
			if err != nil {
				return err
			}
		}
		if !l.yield(it, nil) {
			return errEnough
		}
	}
	return nil
}

// recordsOf returns one record for each entry. The identifier is empty if the record must not
// be listed, because it is listed with another set.
func (p *Published) recordsOf(ctx context.Context, set int, some []entry, s oaipmh.Selection) ([]oaipmh.Record, error) {
	records := make([]oaipmh.Record, len(some))
	uris := make([]string, len(some))
	for i := range some {
		uris[i] = some[i].URI
		records[i].Header = oaipmh.Header{Identifier: uris[i], Datestamp: oaipmh.Stamp{Time: some[i].changed.Truncate(time.Second)}, Deleted: some[i].deleted}
	}
	for other := range p.Shown {
		var found []catalog.Resource
		var err error
		if other != set {
			if found, err = p.Catalog.Lookup(ctx, p.Shown[other].ID, uris); err != nil {
				return nil, err
			}
		}
		for i := range records {
			in := other == set || found[i].Member && !some[i].deleted
			if in && p.Shown[other].Name != "" {
				records[i].Sets = append(records[i].Sets, p.Shown[other].Name)
			}
			if s.Set == "" && other != set && found[i].Member && (other < set || some[i].deleted) {
				records[i].Identifier = "" // the record is listed with the other set, so it is not listed with this one
			}
		}
	}
	return records, p.setIdentifiers(ctx, &p.Shown[set], some, records)
}

// setIdentifiers gives harvested records the identifiers of the repository from which they
// were harvested.
func (p *Published) setIdentifiers(ctx context.Context, set *PublishedSet, some []entry, records []oaipmh.Record) error {
	if set.Harvest == nil {
		return nil
	}
	paths := make([]string, len(some))
	for i := range some {
		paths[i], _ = scan.PathOf(p.BaseURL, some[i].URI)
	}
	originals, err := p.Stores[*set.Harvest].identifiersOf(ctx, paths)
	if err != nil {
		return err
	}
	for i := range records {
		if id := originals[paths[i]]; id != "" && records[i].Identifier != "" {
			records[i].Identifier = id
		}
	}
	return nil
}

// Record implements oaipmh.Repository.
func (p *Published) Record(ctx context.Context, identifier, prefix string) (r oaipmh.Record, err error) {
	if set, m, err := p.mapOf(ctx, identifier); m != nil || err != nil {
		if err == nil && prefix != oaiDC.Prefix && prefix != mapFormat.Prefix {
			err = noFormat(prefix)
		}
		if err != nil {
			return r, err
		}
		return p.mapRecord(set, m, prefix, true)
	}
	e, err := p.find(ctx, identifier)
	if err != nil {
		return r, err
	}
	set := &p.Shown[e.place.set]
	if prefix != oaiDC.Prefix && (set.Harvest == nil || set.Harvest.Prefix != prefix) {
		return r, noFormat(prefix)
	}
	all, err := p.recordsOf(ctx, e.place.set, []entry{e}, oaipmh.Selection{Prefix: prefix, Set: "*"})
	if err != nil {
		return r, err
	}
	r = all[0]
	if !r.Deleted {
		r.Metadata, err = p.metadata(set, &e, prefix)
	}
	return r, err
}

func noFormat(prefix string) error {
	return &oaipmh.Error{Code: oaipmh.CannotDisseminateFormat, Msg: fmt.Sprintf("the record has no format %q", prefix)}
}

// find returns the member of a set that has the identifier. If there is no such member, it
// returns the last deletion of that identifier in the change logs (OAI-PMH 2.0 §2.5.1).
func (p *Published) find(ctx context.Context, identifier string) (e entry, err error) {
	for i := range p.Shown {
		uri := p.uriOf(i, identifier)
		found, err := p.Catalog.Lookup(ctx, p.Shown[i].ID, []string{uri})
		if err != nil {
			return e, err
		}
		if found[0].Member {
			return entry{found[0], place{set: i}, found[0].Changed, false}, nil
		}
	}
	for i := range p.Shown {
		last, err := p.Catalog.Deletions(ctx, p.Shown[i].ID, []string{p.uriOf(i, identifier)})
		if err != nil {
			return e, err
		}
		if c := last[0]; c.Seq != 0 && c.Datetime.After(e.changed) {
			e = entry{c.Resource, place{set: i}, c.Datetime, true}
		}
	}
	if e.deleted {
		return e, nil
	}
	return e, &oaipmh.Error{Code: oaipmh.IDDoesNotExist, Msg: "the repository has no such record"}
}

func (p *Published) uriOf(set int, identifier string) string {
	if k := p.Shown[set].Harvest; k != nil {
		return scan.URI(p.BaseURL, PathOf(k.Prefix, identifier))
	}
	return identifier
}

func (p *Published) metadata(set *PublishedSet, e *entry, prefix string) ([]byte, error) {
	if set.Harvest == nil || set.Harvest.Prefix != prefix {
		return dublinCore(e), nil
	}
	text, err := readRecord(p.Files, e.Path)
	if err != nil {
		return nil, err
	}
	if sum := e.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
		if got := sha256.Sum256(text); !bytes.Equal(got[:], sum.Sum()) {
			return nil, fmt.Errorf("file %q: %w: it changed since it was published", e.Path, fs.ErrNotExist)
		}
	}
	return bytes.TrimPrefix(text, []byte(declaration)), nil
}

// readRecord reads the file of a record. It stops one KiB after the length of the longest
// allowed record.
func readRecord(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, oaipmh.MaxRecord+1<<10))
	return text, errors.Join(err, f.Close())
}

func dublinCore(e *entry) []byte {
	var b bytes.Buffer
	b.WriteString(`<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="` +
		oaiDC.Namespace + ` ` + oaiDC.Schema + `">`)
	for _, field := range []struct{ name, text string }{
		{"title", path.Base(e.Path)}, {"identifier", e.URI}, {"format", e.Type}, {"date", e.LastMod.String()},
	} {
		if field.text != "" {
			oaipmh.WriteElement(&b, "dc:"+field.name, strings.ToValidUTF8(field.text, "\uFFFD"))
		}
	}
	b.WriteString("</oai_dc:dc>")
	return b.Bytes()
}
