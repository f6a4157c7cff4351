package publish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"instep/internal/catalog"
	"instep/internal/mediatype"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// AdoptError reports why a publication cannot be taken over. Nothing was changed.
type AdoptError struct {
	Key    string // key of the document in the output
	Reason string // the reason, as the end of a sentence that begins with Key
	Err    error  // may be nil
}

func (e *AdoptError) Error() string {
	text := fmt.Sprintf("cannot adopt: %q %s", e.Key, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *AdoptError) Unwrap() error { return e.Err }

const adoptedSetting = "adopted"

// adoptionRecord has the keys of those documents of an adopted publication that remain in
// the output.
type adoptionRecord struct {
	Aliases source.Aliases
	Left    []string // the keys of documents that stay in the output, are not published as resources, and are linked by no document
}

// loadAdopted reads the record of an earlier adoption, and sets s.foreign. The record is
// empty if nothing was adopted.
func (s *Session) loadAdopted(ctx context.Context) (adoptionRecord, error) {
	var a adoptionRecord
	text, ok, err := s.facts.Setting(ctx, adoptedSetting)
	if err != nil || !ok {
		return a, err
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("reading the record of the adoption: %w", err)
	}
	s.foreign = map[string]bool{}
	for _, set := range s.site.sets {
		for _, key := range slices.Concat(a.Left, a.Aliases.Keys(set.Name)) {
			s.foreign[key] = true
		}
	}
	return a, nil
}

// adopter adopts a publication that has no state: a publication of Instep whose state is
// lost, or a publication of another program.
type adopter struct {
	*reader
	s       *Session
	ours    bool   // whether Instep made the publication to adopt
	uuid    string // the UUID of the lost state of a publication of Instep
	now     time.Time
	kept    adoptionRecord
	own     map[string]catalog.Document // the documents that will be recorded as written by this state
	sets    []*adoptedSet
	id      int64 // the highest publication id that an adopted document has in its name
	changes int64 // the highest Change List number that an adopted document has in its name
	notes   []string
}

type adoptedSet struct {
	*offer
	name  string
	id    catalog.SetID
	pub   source.Publication
	items []source.Item

	early, late, weak int // three counts: changes with a datetime that is too early, changes with one that is too late, resources whose files could not be verified
}

// adopt adopts the publication in the output, if Site.Adopt is set and the state is new.
func (s *Session) adopt(ctx context.Context) error {
	if !s.site.Adopt {
		return nil
	}
	published, err := s.pubs.PublishedSets(ctx)
	if err != nil || len(published) > 0 {
		return err // the state is not new, since it already records a publication
	}
	a := &adopter{
		reader: &reader{ctx: ctx, bucket: s.bucket, base: s.site.BaseURL},
		s:      s, now: s.site.Now().UTC().Truncate(time.Microsecond), own: map[string]catalog.Document{},
	}
	if err := a.find(); err != nil {
		return err
	}
	settings, err := a.settings()
	if err != nil {
		return err
	}
	err = s.pubs.Adopt(ctx, a.changes-1, settings, func(c *catalog.Adoption) error {
		for i, set := range a.sets {
			if err := a.recordSet(c, set, a.id+int64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, catalog.ErrState) {
		err = &AdoptError{infoKey, fmt.Sprintf("can't be adopted into the state %q (give a new one with --state)", s.site.State), err}
	}
	s.notes, s.takenOver = a.notes, !a.ours
	return err
}

func (a *adopter) note(format string, args ...any) {
	a.notes = append(a.notes, "adopted: "+fmt.Sprintf(format, args...))
}

// settings returns the settings to store in the catalog, except the settings of the sets.
func (a *adopter) settings() (map[string]string, error) {
	text, err := json.Marshal(a.kept)
	all := map[string]string{
		dirSetting: a.s.dir, catalog.PublisherSetting: a.s.site.BaseURL, outSetting: a.s.outPath, adoptedSetting: string(text),
	}
	if a.ours {
		all[catalog.UUIDSetting] = a.uuid
	}
	return all, err
}

func (a *adopter) find() error {
	info, err := publishedInfo(a.s.outPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = a.findForeign()
	case err == nil:
		a.ours = true
		err = a.findOurs(info)
	}
	if err != nil {
		return err
	}
	a.id++ // the id of the next publication, higher than all ids in the names of adopted documents
	for _, set := range a.sets {
		if set.id, err = a.s.facts.Set(a.ctx, set.name); err != nil {
			return err
		}
		a.note("the Resource List %q (resources: %d), Change Lists: %d", set.list.key, set.resources, len(set.changes))
	}
	if n := len(a.kept.Left); n > 0 {
		a.note("left unchanged, but no longer linked by any document: %s, such as %q", english.Plural(int(n), "document", ""), a.kept.Left[0])
	}
	return nil
}

// numberedKey matches those keys of documents of Instep that contain the id of a
// publication or the number of a Change List.
var numberedKey = regexp.MustCompile(`(?:^|/)(?:(lists|dumps|changedumps)/(\d+)/|sitemap-(\d+)-\d+\.xml$|(changes|changedumps)/(\d+)\.xml$)`)

// sitemapForm matches the file names of the plain sitemaps that Instep writes.
var sitemapForm = regexp.MustCompile(`^sitemap(-\d+-\d{5})?\.xml$`)

// raiseNumbers raises a.id and a.changes to the publication id and the Change List number
// in a key, if these are higher.
func (a *adopter) raiseNumbers(key string) {
	for _, m := range numberedKey.FindAllStringSubmatch(key, -1) {
		a.id, a.changes = max(a.id, atoi(cmp.Or(m[2], m[3]))), max(a.changes, atoi(m[5]))
	}
}

// atoi returns the value of digits, or 0 if digits is not a number.
func atoi(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (a *adopter) recordSet(c *catalog.Adoption, set *adoptedSet, id int64) error {
	if err := a.recordMembers(c, set); err != nil {
		return err
	}
	set.pub.ID, set.pub.Set, set.pub.Made, set.pub.Resources = id, set.name, a.now, set.resources
	set.pub.ListAt = set.listAt()
	if err := a.recordChanges(c, set); err != nil {
		return err
	}
	if set.early+set.late > 0 {
		a.note("%s got another datetime, because the datetime in the Change List was out of order, outside the period of the list or in the future", english.Plural(int(set.early+set.late), "change", ""))
	}
	if set.weak > 0 {
		a.note("%s of %q will be published as updated, because the list states no digest of them and their files do not have the listed length and time", english.Plural(int(set.weak), "resource", ""), set.list.key)
	}
	body, err := json.Marshal(set.pub)
	if err != nil {
		return err
	}
	f := catalog.Finished{At: a.now}
	for _, key := range slices.Sorted(maps.Keys(a.own)) {
		f.Documents = append(f.Documents, a.own[key])
	}
	a.own = nil // the documents are recorded together with the first set, so the other sets record none
	if f.Items, err = itemRows(set.items); err != nil {
		return err
	}
	return c.Publish(set.id, id, string(body), f)
}

func (a *adopter) recordMembers(c *catalog.Adoption, set *adoptedSet) error {
	for _, d := range set.parts {
		err := a.eachEntry(d, func(e *resourcesync.Entry) error {
			ch := catalog.Change{Datetime: set.listAt(), Change: resourcesync.Created, Resource: a.resource(e)}
			if len(ch.Digests) == 0 && !a.addDigest(&ch.Resource) {
				set.weak++
			}
			return a.recordMember(c, set, ch)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordMember records the state of a resource in the set. It keeps the spelling of the URI
// in the adopted document, since mirrors identify the resource by this spelling.
func (a *adopter) recordMember(c *catalog.Adoption, set *adoptedSet, ch catalog.Change) error {
	own := scan.URI(a.base, ch.Path)
	if ch.Change != resourcesync.Deleted && ch.Path != ch.URI && own != ch.URI {
		if err := c.Spell(own, ch.URI); err != nil {
			return err
		}
	}
	return c.Hold(set.id, ch)
}

func (a *adopter) resource(e *resourcesync.Entry) catalog.Resource {
	path, modified := a.path(e.Loc), e.LastMod
	if a.ours && !e.Datetime.IsZero() && modified == source.RoundedUp(e.Datetime) {
		modified = resourcesync.Datetime{} // Instep wrote the time of the change as "lastmod", so the modification time is unknown
	}
	return catalog.Resource{
		URI: e.Loc, Path: path, LastMod: modified, Length: e.Length, Digests: e.Digests,
		Type: cmp.Or(e.Type, mediatype.ByName(path)), Encoding: e.Encoding, ChangeFreq: e.ChangeFreq,
	}
}

// addDigest computes the missing digest of a resource from its file. It returns false if
// the file does not have the listed length and time.
func (a *adopter) addDigest(r *catalog.Resource) bool {
	if a.s.tree == nil || r.LastMod.IsZero() {
		return false
	}
	f, err := a.s.tree.Open(r.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || r.Length.Known() && r.Length.Int64() != info.Size() ||
		info.ModTime().Unix() != r.LastMod.Time().Unix() {
		return false
	}
	defer context.AfterFunc(a.ctx, func() { _ = f.Close() })()
	h := resourcesync.NewHasher(resourcesync.SHA256)
	n, err := io.Copy(h, f)
	if err != nil {
		return false
	}
	r.Digests, r.Length = h.Digests(), resourcesync.Bytes(n)
	return true
}

// recordChanges applies the changes in the Change Lists of a set, in order. It puts the
// changes of the open list into the change log. The closed lists of a publication of
// Instep stay unchanged.
func (a *adopter) recordChanges(c *catalog.Adoption, set *adoptedSet) error {
	p := &set.pub
	p.ChangesNumber, p.ChangesFrom = a.continuedList(set)
	p.ChangesThrough = p.ChangesNumber - 1
	c.Reserve(p.ChangesFrom)
	var last time.Time
	for i, l := range set.changes {
		if from := a.startOf(l); from.After(last) {
			last = from
		}
		list, err := a.orderedChanges(set, l, last)
		if err != nil {
			return err
		}
		logs := !a.ours || i == len(set.changes)-1 && l.header.Until.IsZero()
		for _, ch := range list {
			last = ch.Datetime
			if !ch.Datetime.Before(set.listAt()) {
				if err := a.recordMember(c, set, ch); err != nil {
					return err
				}
			}
			if !logs {
				continue
			}
			seq, err := c.Log(set.id, ch)
			if err != nil {
				return err
			}
			if a.ours { // the changes of other programs do not count here, because they are divided into new Change Lists
				p.ChangesThrough, p.Changes = seq, p.Changes+1
			}
		}
	}
	return nil
}

// continuedList returns the number and the start time of the Change List to which the next
// publication adds changes. For a publication of Instep that is its open list. For a
// publication of another program it is a new list that starts with the first adopted
// change, because all adopted changes are divided into new lists.
func (a *adopter) continuedList(set *adoptedSet) (int64, time.Time) {
	n := len(set.changes)
	switch {
	case n > 0 && !a.ours:
		return a.changes, a.startOf(set.changes[0])
	case n > 0 && set.changes[n-1].header.Until.IsZero():
		return set.changes[n-1].number(), set.changes[n-1].start()
	case n > 0:
		return a.changes, set.changes[n-1].header.Until.Time()
	case set.listAt().IsZero():
		return a.changes, a.now
	}
	return a.changes, set.listAt()
}

// startOf returns the start of the period of a Change List. If another program wrote a time
// in the future, startOf returns the present time instead.
func (a *adopter) startOf(l *doc) time.Time {
	from := l.start()
	if !a.ours && from.After(a.now) {
		return a.now
	}
	return from
}

// orderedChanges returns the changes in a Change List, ordered by datetime. A time before
// the end of the previous list is replaced by that end. In lists of other programs, times
// in the future are replaced by the present time.
func (a *adopter) orderedChanges(set *adoptedSet, l *doc, previousEnd time.Time) ([]catalog.Change, error) {
	var list []catalog.Change
	before := previousEnd
	err := a.eachEntry(l, func(e *resourcesync.Entry) error {
		when := e.Datetime
		if when.IsZero() && e.Change != resourcesync.Deleted {
			when = e.LastMod // in ResourceSync 1.0 "lastmod" is the time of the change, except that for a deletion it may be the time of the last version
		}
		t := when.Time().UTC().Truncate(time.Microsecond)
		if when.IsZero() {
			t = before
		}
		before = t
		list = append(list, catalog.Change{Datetime: t, Change: e.Change, Resource: a.resource(e)})
		return nil
	})
	slices.SortStableFunc(list, func(x, y catalog.Change) int { return x.Datetime.Compare(y.Datetime) })
	for i := range list {
		ch := &list[i]
		switch {
		case ch.Datetime.Before(previousEnd):
			set.early++
			ch.Datetime = previousEnd
		case !a.ours && ch.Datetime.After(a.now):
			set.late++
			ch.Datetime = a.now
		}
		previousEnd = ch.Datetime
	}
	return list, err
}

// recordOurs records the documents of Instep with the given key prefix as written by this
// state. It returns an error if another file has such a key.
func (a *adopter) recordOurs(prefix string) error {
	for info, err := range a.bucket.List(a.ctx, prefix) {
		if err != nil {
			return fmt.Errorf("listing %q: %w", prefix, err)
		}
		if !strings.HasPrefix(info.Key, ourPrefix) && info.Key != wellKnownKey && !sitemapForm.MatchString(info.Key) {
			continue
		}
		a.raiseNumbers(info.Key)
		if _, known := a.own[info.Key]; known {
			continue
		}
		doc, err := a.documentOf(info.Key, info.Size)
		if err != nil {
			return err
		}
		a.own[info.Key] = doc
	}
	return nil
}

// documentOf returns the record of a document. It returns an error if Instep cannot have
// written the file.
func (a *adopter) documentOf(key string, size int64) (catalog.Document, error) {
	doc := catalog.Document{Key: key, Length: size, Immutable: source.Immutable(key)}
	name := key[strings.LastIndexByte(key, '/')+1:]
	switch {
	case strings.HasSuffix(name, ".zip"):
		return doc, nil // no digest is needed, because a package is compared only by its size
	case strings.HasSuffix(name, ".xml") || name == "resourcesync":
		d, err := a.read(key, "")
		if err != nil {
			return doc, err
		}
		doc.SHA256 = d.sum
		return doc, nil
	case name == "about.html" || name == "set.html" || name == "publication.json":
		sum, err := source.SumOf(a.ctx, a.bucket, key)
		doc.SHA256 = sum
		return doc, err
	}
	return doc, &AdoptError{Key: key, Reason: "is no document of a publication (move it away)"}
}
