package source

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Keys that are the same for every set.
const (
	root           = "resourcesync/"
	infoKey        = root + "publication.json"
	aboutKey       = root + "about.html"
	descriptionKey = root + "description.xml"
	wellKnownKey   = ".well-known/resourcesync"
	sitemapName    = "sitemap.xml"

	fixedChangesName = "changelist.xml" // beside resourcelist.xml, the Resource List at a fixed name
)

// Document.Rank, in the order of appearance.
const (
	rankInfo         = iota // the owner of the publication: before its other documents
	rankMaps                // Resource Maps: lists of resources link them
	rankMapLists            // what lists them
	rankPackages            // already at their places when the publication is committed
	rankManifests           // copies of the manifests in the packages
	rankPatches             // Change Lists link them
	rankChanges             // changes, before the snapshot whose at they cover
	rankArchiveParts        // of archives
	rankArchives            // archives, their indexes
	rankIndexes             // indexes of Change Lists and Change Dumps
	rankParts               // parts of lists, dumps and sitemaps
	rankList                // lists, dumps, their indexes
	rankFixed               // copies under a fixed name
	rankPages               // for people
	rankCapability          // the Capability List
	rankDescriptionParts
	rankDescription  // the first document that readers read
	rankFixedChanges // polled by readers that never read the description; nothing links it
)

// nameForm is the form of a set's name, which becomes part of keys and URIs unchanged.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// CheckSet reports whether a set can have this name; "" is the default set.
func CheckSet(name string) error {
	if name != "" && !nameForm.MatchString(name) {
		return fmt.Errorf("%q can't name a set: a letter or digit, then at most 99 of A-Z a-z 0-9 . _ -", name)
	}
	return nil
}

// ParseBaseURL checks the URL below which a publication is served and returns it
// as documents write it: with "/" at the end.
func ParseBaseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("reading the base URL: %w", err)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("base URL %q: expected http:// or https:// at its start", s)
	case u.Hostname() == "":
		return "", fmt.Errorf("base URL %q has no host", s)
	case u.User != nil:
		return "", errors.New("a base URL can't hold a user name or password: everybody reads it")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#"):
		return "", fmt.Errorf("base URL %q: expected no query and no fragment", s)
	}
	u.Host = strings.ToLower(u.Host)
	if !strings.HasSuffix(u.Path, "/") {
		u = u.JoinPath("/")
	}
	for _, segment := range strings.Split(strings.Trim(u.Path, "/"), "/") {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("base URL %q: expected no . or .. in its path", s)
		}
	}
	return u.String(), nil
}

// layout knows where the documents of one set lie.
type layout struct {
	base string // ends in "/"
	set  string // "" is the default set

	aliases Aliases
}

func (l layout) uri(key string) string { return l.base + key }

func (l layout) dir() string {
	if l.set == "" {
		return root
	}
	return root + "sets/" + l.set + "/"
}

func (l layout) capabilityList() string { return l.dir() + "capabilitylist.xml" }

func (l layout) changeList(number int64) string {
	return fmt.Sprintf("%schanges/%d.xml", l.dir(), number)
}

// resourceList is the key of the list, or its index, of a generation.
func (l layout) resourceList(generation int64) string {
	return fmt.Sprintf("%slists/%d/resourcelist.xml", l.dir(), generation)
}

func (l layout) resourceListPart(generation int64, n int) string {
	return fmt.Sprintf("%slists/%d/resourcelist-%05d.xml", l.dir(), generation, n)
}

// changeDump is the key of the Change Dump beside a Change List.
func (l layout) changeDump(number int64) string {
	return fmt.Sprintf("%schangedumps/%d.xml", l.dir(), number)
}

// changeIndex is the key of the index of all current Change Lists.
func (l layout) changeIndex() string { return l.dir() + "changelist-index.xml" }

// changeDumpIndex is the key of the index of all current Change Dumps.
func (l layout) changeDumpIndex() string { return l.dir() + "changedump-index.xml" }

// resourceDump is the key of the dump, or its index, of a generation.
func (l layout) resourceDump(generation int64) string {
	return fmt.Sprintf("%sdumps/%d/resourcedump.xml", l.dir(), generation)
}

func (l layout) resourceDumpPart(generation int64, n int) string {
	return fmt.Sprintf("%sdumps/%d/resourcedump-%05d.xml", l.dir(), generation, n)
}

// packages are the prefixes of the packages of a publication: of its Resource Dump
// and of its Change Dumps.
func (l layout) packages(id int64) [2]string {
	return [2]string{fmt.Sprintf("%sdumps/%d/", l.dir(), id), fmt.Sprintf("%schangedumps/%d/", l.dir(), id)}
}

// dumpPackage returns the key of the nth package of a Resource Dump, from 1, and the key of
// the copy of its manifest.
func (l layout) dumpPackage(generation int64, n int) (zip, manifest string) {
	return packageKeys(l.packages(generation)[0], n)
}

// changePackage is dumpPackage for the nth package of Change Dumps of a publication.
func (l layout) changePackage(publication int64, n int) (zip, manifest string) {
	return packageKeys(l.packages(publication)[1], n)
}

func packageKeys(dir string, n int) (zip, manifest string) {
	return fmt.Sprintf("%s%05d.zip", dir, n), fmt.Sprintf("%s%05d-manifest.xml", dir, n)
}

// isPackage reports whether a key of a publication is that of a package.
func isPackage(key string) bool { return strings.HasSuffix(key, ".zip") }

// archive is the key of an archive, or its index.
func (l layout) archive(kind ItemKind) string {
	return fmt.Sprintf("%sarchives/%s-archive.xml", l.dir(), kind)
}

func (l layout) archivePart(kind ItemKind, n int64) string {
	return fmt.Sprintf("%sarchives/%s-archive-%05d.xml", l.dir(), kind, n)
}

// archived is the key of the copy of a Change List or Change Dump for its archive.
func (l layout) archived(kind ItemKind, number int64) string {
	return fmt.Sprintf("%sarchives/%ss/%d.xml", l.dir(), kind, number)
}

// descriptionPart is the key of a part of the Source Description.
func descriptionPart(n int) string { return fmt.Sprintf("%sdescription-%05d.xml", root, n) }

// mapFile is the key of a file of the Resource Maps.
func (l layout) mapFile(name string) string { return l.dir() + "maps/" + name }

// page is the key of the page about the set.
func (l layout) page() string { return l.dir() + "set.html" }

// fixedResourceList never changes its name: robots.txt needs one.
func (l layout) fixedResourceList() string { return l.dir() + "resourcelist.xml" }

// fixedChangeList never changes its name: some clients poll one URI.
func (l layout) fixedChangeList() string { return l.dir() + fixedChangesName }

// sitemap is where search engines look; another place if a foreign file is there.
func (l layout) sitemap(foreign bool) string {
	if l.set == "" && !foreign {
		return sitemapName
	}
	return l.dir() + sitemapName
}

// sitemapPart lies beside the sitemap: a sitemap speaks for its own directory only.
func sitemapPart(sitemap string, generation int64, n int) string {
	return fmt.Sprintf("%s-%d-%05d.xml", strings.TrimSuffix(sitemap, ".xml"), generation, n)
}

// stagePrefix is where the documents of a publication wait in the staging bucket.
func (l layout) stagePrefix() string {
	if l.set == "" {
		return "default/"
	}
	return "set/" + l.set + "/"
}

// owns reports whether a key is one of this set's own, rather than another's.
func (l layout) owns(key string) bool {
	if l.set == "" {
		return !strings.HasPrefix(key, root+"sets/")
	}
	return strings.HasPrefix(key, l.dir())
}

// atRoot reports whether the base URL is the root of its host.
func (l layout) atRoot() bool {
	u, err := url.Parse(l.base)
	return err == nil && u.Path == "/"
}

// DescriptionURI is where the Source Description of a base URL lies.
func DescriptionURI(base string) string { return base + descriptionKey }

// AboutURI is where the page for people of a base URL lies.
func AboutURI(base string) string { return base + aboutKey }

// CapabilityListURI is where the Capability List of a set lies.
func CapabilityListURI(base, set string) string {
	l := layout{base: base, set: set}
	return l.uri(l.capabilityList())
}

// FixedChangeListURI is where the Change List of a set lies whose URI never changes; see
// Policy.FixedChanges.
func FixedChangeListURI(base, set string) string {
	l := layout{base: base, set: set}
	return l.uri(l.fixedChangeList())
}

// MayBeDocument reports whether a publication could write a document at a key.
func MayBeDocument(key string) bool {
	return key == wellKnownKey || strings.HasPrefix(key, root) || strings.HasPrefix(key, "sitemap") && strings.HasSuffix(key, ".xml")
}

// Immutable reports whether the bytes of a published key never change, so that
// caches may keep them.
func Immutable(key string) bool {
	rest, ok := strings.CutPrefix(key, root)
	if !ok {
		return false
	}
	if named, ok := strings.CutPrefix(rest, "sets/"); ok {
		_, rest, _ = strings.Cut(named, "/")
	}
	kind, in, ok := strings.Cut(rest, "/")
	switch kind {
	case "lists":
		return ok
	case "dumps", "changedumps", "archives", "patches":
		return strings.Contains(in, "/")
	}
	return false
}
