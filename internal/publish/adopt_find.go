package publish

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"instep/blob"
	"instep/internal/catalog"
	"instep/resourcesync"
	"instep/source"
)

const (
	infoKey      = "resourcesync/publication.json"
	ourPrefix    = "resourcesync/"
	wellKnownDir = ".well-known"
	wellKnownKey = wellKnownDir + "/resourcesync"
)

func (a *adopter) findOurs(info source.PublicationInfo) error {
	if info.BaseURL != a.base {
		return &AdoptError{infoKey, fmt.Sprintf("belongs to a publication for %s, expected %s", info.BaseURL, a.base), nil}
	}
	a.uuid, a.kept.Aliases = info.State, info.Aliases
	if err := a.checkDescribedSets(); err != nil {
		return err
	}
	for _, one := range a.s.site.sets {
		key := strings.TrimPrefix(source.CapabilityListURI(a.base, one.Name), a.base)
		there, err := a.exists(key)
		if err != nil {
			return err
		}
		if !there {
			continue // the Capability List is missing, and the next publication writes it again
		}
		o, err := a.offer(key)
		if err != nil {
			return err
		}
		a.sets = append(a.sets, &adoptedSet{offer: o, name: one.Name})
	}
	prefixes := []string{ourPrefix, "sitemap"}
	if u, err := url.Parse(a.base); err == nil && u.Path == "/" {
		prefixes = append(prefixes, wellKnownKey)
	}
	for _, prefix := range prefixes {
		if err := a.recordOurs(prefix); err != nil {
			return err
		}
	}
	if err := a.recordWellKnown(); err != nil {
		return err
	}
	for _, key := range a.kept.Aliases.AllKeys() {
		if err := a.recordReplaced(key); err != nil {
			return err
		}
	}
	a.changes++ // the next Change List gets a higher number than all existing ones
	for _, set := range a.sets {
		a.describeOurs(set)
	}
	return nil
}

// recordWellKnown records the file at .well-known/resourcesync as a document of ours. If
// the base URL has a path and the file differs from our Source Description, another program
// wrote the file, and it stays unchanged.
func (a *adopter) recordWellKnown() error {
	there, err := a.exists(wellKnownKey)
	if err != nil || !there {
		return err
	}
	sum, err := source.SumOf(a.ctx, a.bucket, wellKnownKey)
	if of := a.own["resourcesync/description.xml"]; err == nil && sum == of.SHA256 {
		a.own[wellKnownKey] = catalog.Document{Key: wellKnownKey, Length: of.Length, SHA256: of.SHA256}
	}
	return err
}

// checkDescribedSets returns an error if the Source Description of the publication lists a
// set that the site does not publish.
func (a *adopter) checkDescribedSets() error {
	d, err := a.read("resourcesync/description.xml", resourcesync.CapabilityDescription)
	if err != nil || d.header.Root == resourcesync.SitemapIndex {
		return err
	}
	return a.eachEntry(d, func(e *resourcesync.Entry) error {
		for _, one := range a.s.site.sets {
			alias := a.kept.Aliases.Sets[one.Name].CapabilityList
			if e.Loc == source.CapabilityListURI(a.base, one.Name) || alias != "" && e.Loc == a.base+alias {
				return nil
			}
		}
		return &AdoptError{d.key, fmt.Sprintf("line %d: names the set %s, which is not one of the sets to publish", e.Line, e.Loc), nil}
	})
}

// describeOurs reconstructs the record of a set's last publication from its documents.
func (a *adopter) describeOurs(set *adoptedSet) {
	p := &set.pub
	p.Offers = []source.Offer{{Capability: resourcesync.CapabilityResourceList, URI: a.base + set.list.key}}
	if len(set.named) > 0 {
		p.Offers = append(p.Offers, source.Offer{Capability: resourcesync.CapabilityChangeList, URI: a.base + set.named[0].key})
	}
	fixed := strings.TrimPrefix(source.FixedChangeListURI(a.base, set.name), a.base)
	if _, ours := a.own[fixed]; ours && len(set.changes) > 0 {
		p.FixedChanges = set.changes[0].number()
	}
	list := source.Item{Kind: source.ItemResourceList, Key: set.list.key, At: set.listAt(), Entries: set.resources, Current: true, Since: a.now}
	for _, d := range slices.Concat(set.parts, []*doc{set.list}) {
		if !slices.Contains(list.Keys, d.key) {
			list.Keys, list.Bytes = append(list.Keys, d.key), list.Bytes+d.length
		}
	}
	if m := numberedKey.FindStringSubmatch(set.list.key); m != nil {
		list.Number = atoi(m[2])
		p.Generations = []int64{list.Number}
	}
	p.ListKeys = list.Keys
	set.items = append(set.items, list)
	for i, d := range set.changes {
		it := source.Item{
			Kind: source.ItemChangeList, Number: d.number(), Key: d.key, Keys: []string{d.key}, From: d.start(),
			Until: d.header.Until.Time().UTC(), Through: d.number(), Entries: d.entries, Bytes: d.length, Current: true, Since: a.now,
		}
		if i+1 < len(set.changes) {
			it.Through = set.changes[i+1].number() - 1
		}
		set.items = append(set.items, it)
	}
	for _, c := range set.others {
		a.note("the adopted publication has a %s, which is not continued: a new one is written if an option requests it", c)
	}
	if set.name == "" {
		for key := range a.own {
			if strings.HasPrefix(key, "sitemap") {
				p.SitemapKeys = append(p.SitemapKeys, key)
			}
		}
		slices.Sort(p.SitemapKeys)
	}
}

// entrances are the file names under which programs publish a Capability List, or a Source
// Description that leads to one.
var entrances = []string{
	"capabilitylist.xml", wellKnownKey, "sourcedescription.xml", "sourceDescription.xml", "description.xml", "resourcesync.xml",
}

func (a *adopter) findForeign() error {
	if len(a.s.site.sets) != 1 {
		return &AdoptError{entrances[0], "describes one set, but the configuration has several sets", nil}
	}
	set := &adoptedSet{name: a.s.site.sets[0].Name}
	key, err := a.findCapabilityList()
	if err != nil {
		return err
	}
	if set.offer, err = a.offer(key); err != nil {
		return err
	}
	if err := a.findDescriptions(set.capabilities); err != nil {
		return err
	}
	a.changes = 1
	names := source.SetAliases{CapabilityList: key, ResourceLists: []string{set.list.key}}
	if n := len(set.named); n > 0 {
		slices.SortStableFunc(set.named, func(x, y *doc) int { return x.start().Compare(y.start()) })
		names.ChangeLists = []string{set.named[n-1].key}
	}
	a.kept.Aliases.Sets = map[string]source.SetAliases{set.name: names}
	keys := a.kept.Aliases.AllKeys()
	for _, key := range keys {
		if err := a.recordReplaced(key); err != nil {
			return err
		}
	}
	if err := a.checkNamesFree(); err != nil {
		return err
	}
	for _, d := range slices.Concat(set.parts, set.named, set.changes) {
		set.left = append(set.left, d.key)
	}
	for _, key := range set.left {
		if !slices.Contains(keys, key) && !slices.Contains(a.kept.Left, key) {
			a.kept.Left = append(a.kept.Left, key)
		}
	}
	if set.gap != "" {
		a.note("%s", set.gap)
	}
	a.sets = []*adoptedSet{set}
	return nil
}

// ourNames are the file names of the documents that each publication of Instep rewrites.
var ourNames = []string{
	"publication.json", "about.html", "set.html", "description.xml", "capabilitylist.xml", "resourcelist.xml",
	"changelist-index.xml", "changedump-index.xml",
}

// checkNamesFree returns an error if another program's file has the key of a document that
// Instep writes, because such a file would block every publication.
func (a *adopter) checkNamesFree() error {
	for info, err := range a.bucket.List(a.ctx, ourPrefix) {
		if err != nil {
			return fmt.Errorf("listing %q: %w", ourPrefix, err)
		}
		_, known := a.own[info.Key]
		if numberedKey.MatchString(info.Key) || !known && slices.Contains(ourNames, path.Base(info.Key)) {
			return &AdoptError{info.Key, fmt.Sprintf("has the name of a document of Instep, but %q is missing (put that file back, or move the document away)", infoKey), nil}
		}
	}
	return nil
}

func (a *adopter) findCapabilityList() (string, error) {
	for _, key := range entrances {
		there, err := a.exists(key)
		if err != nil {
			return "", err
		}
		if !there {
			continue
		}
		d, err := a.read(key, "")
		switch {
		case err != nil && key != entrances[0] && key != wellKnownKey:
			continue // not a usable document, so the next name is tried
		case err != nil:
			return "", err
		case d.header.Capability == resourcesync.CapabilityCapabilityList:
			return key, nil
		case d.header.Capability == resourcesync.CapabilityDescription:
			return a.singleList(d)
		}
	}
	return "", &AdoptError{entrances[0], fmt.Sprintf("does not exist, nor does any of %q: expected one of these documents of a publication", entrances[1:]), nil}
}

// singleList returns the key of the only Capability List in a Source Description. It
// returns an error if there is none, or if there are several.
func (a *adopter) singleList(description *doc) (found string, err error) {
	err = a.eachEntry(description, func(e *resourcesync.Entry) error {
		key, err := a.key(e.Loc, description)
		if err == nil && found != "" && key != found {
			err = &AdoptError{description.key, fmt.Sprintf("names several sets, %q and %q: expected one", found, key), nil}
		}
		found = key
		return err
	})
	if err == nil && found == "" {
		err = &AdoptError{description.key, "names no Capability List", nil}
	}
	return found, err
}

// findDescriptions finds the Source Descriptions of the publication. The Capability List
// links to one of them with rel="up", and readers have stored the URI in that link.
func (a *adopter) findDescriptions(capabilities *doc) error {
	var keys []string
	if up := capabilities.header.Link(resourcesync.RelUp); up != "" {
		if key, err := a.key(up, capabilities); err == nil {
			keys = append(keys, key)
		} else {
			a.note("%q links to the Source Description %s, which is not below the base URL: the link is replaced", capabilities.key, up)
		}
	}
	for i, key := range append(keys, entrances[1:]...) {
		there, err := a.exists(key)
		if err != nil {
			return err
		}
		if !there || slices.Contains(a.kept.Aliases.Descriptions, key) {
			continue
		}
		d, err := a.read(key, "")
		var refused *AdoptError
		switch linked := i < len(keys) || key == wellKnownKey; {
		case err != nil && (linked || !errors.As(err, &refused)):
			return err
		case err != nil || d.header.Capability != resourcesync.CapabilityDescription:
			continue
		}
		only, err := a.singleList(d)
		if err != nil {
			return err
		}
		if only != capabilities.key {
			return &AdoptError{key, fmt.Sprintf("names the Capability List %q, expected %q", only, capabilities.key), nil}
		}
		a.kept.Aliases.Descriptions = append(a.kept.Aliases.Descriptions, key)
	}
	return nil
}

// recordReplaced records that this state wrote a document of the adopted publication, so
// that publications may replace it by a copy of a document of their own.
func (a *adopter) recordReplaced(key string) error {
	there, err := a.exists(key)
	if err != nil || !there {
		return err
	}
	d, err := a.read(key, "")
	if err == nil {
		a.own[key] = catalog.Document{Key: key, Length: d.length, SHA256: d.sum}
	}
	return err
}

func (a *adopter) exists(key string) (bool, error) {
	_, err := a.bucket.Stat(a.ctx, key)
	if errors.Is(err, blob.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %q: %w", key, err)
	}
	return true, nil
}
