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

	fixedChangesName = "changelist.xml" // the Change List at a fixed name
)

// Values of Document.Rank, in the order of publication.
const (
	rankInfo         = iota // publication.json, which names the state directory; written before all other documents
	rankMaps                // Resource Maps, written before the lists that link to them
	rankMapLists            // the documents that list Resource Maps
	rankPackages            // packages, which are written before the commit
	rankManifests           // copies of the manifests in the packages
	rankPatches             // patches, written before the Change Lists that link to them
	rankChanges             // Change Lists and Change Dumps
	rankArchiveParts        // parts of archives
	rankArchives            // archives and their indexes
	rankIndexes             // indexes of Change Lists and Change Dumps
	rankParts               // parts of lists, dumps and sitemaps
	rankList                // lists, dumps and their indexes
	rankFixed               // copies at keys that are always the same
	rankPages               // HTML pages
	rankCapability          // the Capability List
	rankDescriptionParts
	rankDescription  // Source Description, the first document that clients read
	rankFixedChanges // Change List at a fixed name, written last: no document links to it, and some clients read nothing else
)

// nameForm matches the valid names of sets. Keys and URIs contain these names unchanged.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// CheckSet returns an error if name is not a valid name of a set. The default set has the
// name "".
func CheckSet(name string) error {
	if name != "" && !nameForm.MatchString(name) {
		return fmt.Errorf("%q can't name a set: expected a letter or digit, then at most 99 of A-Z a-z 0-9 . _ -", name)
	}
	return nil
}

// ParseBaseURL checks the URL below which a publication is served and returns it in the
// form that documents use: with "/" at the end.
func ParseBaseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if !strings.Contains(s, "://") {
		return "", fmt.Errorf("base URL %q: expected http:// or https:// at its start", s)
	}
	if err != nil { // the error is not returned, because its text may contain a part of a password
		return "", fmt.Errorf("base URL %q: expected a URL such as https://museum.example.org:8080/path/", s)
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("base URL %q: expected http:// or https:// at its start", s)
	case u.Hostname() == "":
		return "", fmt.Errorf("base URL %q has no host", s)
	case u.User != nil:
		return "", errors.New("a base URL can't have a user name or password, because everybody can read it")
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

func (l layout) resourceList(generation int64) string {
	return fmt.Sprintf("%slists/%d/resourcelist.xml", l.dir(), generation)
}

func (l layout) changeDump(number int64) string {
	return fmt.Sprintf("%schangedumps/%d.xml", l.dir(), number)
}

func (l layout) changeIndex(kind ItemKind) string {
	return fmt.Sprintf("%s%s-index.xml", l.dir(), kind)
}

func (l layout) resourceDump(generation int64) string {
	return fmt.Sprintf("%sdumps/%d/resourcedump.xml", l.dir(), generation)
}

// packagePrefixes returns the prefix of the keys of the Resource Dump's packages, and that
// of the Change Dumps' packages, for the publication with the given id.
func (l layout) packagePrefixes(id int64) [2]string {
	return [2]string{fmt.Sprintf("%sdumps/%d/", l.dir(), id), fmt.Sprintf("%schangedumps/%d/", l.dir(), id)}
}

// partKey returns the key of the nth part of a document, given the key of the index of
// the parts.
func partKey(key string, n int64) string {
	return fmt.Sprintf("%s-%05d.xml", strings.TrimSuffix(key, ".xml"), n)
}

func isPackage(key string) bool { return strings.HasSuffix(key, ".zip") }

func (l layout) archive(kind ItemKind) string {
	return fmt.Sprintf("%sarchives/%s-archive.xml", l.dir(), kind)
}

// archiveKey returns the key of the copy of a Change List or Change Dump in an archive.
func (l layout) archiveKey(kind ItemKind, number int64) string {
	return fmt.Sprintf("%sarchives/%ss/%d.xml", l.dir(), kind, number)
}

func (l layout) mapFile(name string) string { return l.dir() + "maps/" + name }

func (l layout) page() string { return l.dir() + "set.html" }

// fixedResourceList returns the key of the copy of the current Resource List. The key is
// the same in every publication, and robots.txt names it.
func (l layout) fixedResourceList() string { return l.dir() + "resourcelist.xml" }

// fixedChangeList returns the key of the Change List at a fixed name, for clients that poll
// one URI.
func (l layout) fixedChangeList() string { return l.dir() + fixedChangesName }

// sitemap returns the key of the plain sitemap. For the default set this is sitemap.xml,
// where search engines look. If foreign is true, another program has written a file
// there, and the sitemap has another key.
func (l layout) sitemap(foreign bool) string {
	if l.set == "" && !foreign {
		return sitemapName
	}
	return l.dir() + sitemapName
}

// stagePrefix returns the prefix of the keys at which documents of the set are stored
// before their publication is committed.
func (l layout) stagePrefix() string {
	if l.set == "" {
		return "default/"
	}
	return "set/" + l.set + "/"
}

func (l layout) owns(key string) bool {
	if l.set == "" {
		return !strings.HasPrefix(key, root+"sets/")
	}
	return strings.HasPrefix(key, l.dir())
}

func (l layout) atRoot() bool {
	u, err := url.Parse(l.base)
	return err == nil && u.Path == "/"
}

// DescriptionURI returns the URI of the Source Description below a base URL.
func DescriptionURI(base string) string { return base + descriptionKey }

// AboutURI returns the URI of the page about the Source below a base URL.
func AboutURI(base string) string { return base + aboutKey }

// CapabilityListURI returns the URI of the Capability List of a set.
func CapabilityListURI(base, set string) string {
	l := layout{base: base, set: set}
	return l.uri(l.capabilityList())
}

// FixedChangeListURI returns the URI of the Change List at a fixed name; see
// Policy.FixedChanges.
func FixedChangeListURI(base, set string) string {
	l := layout{base: base, set: set}
	return l.uri(l.fixedChangeList())
}

// MayBeDocument reports whether a publication can write a document at a key.
func MayBeDocument(key string) bool {
	return key == wellKnownKey || strings.HasPrefix(key, root) || strings.HasPrefix(key, "sitemap") && strings.HasSuffix(key, ".xml")
}

// Immutable reports whether the bytes at a published key never change, so that caches
// may keep them.
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
