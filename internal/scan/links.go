package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"instep/internal/catalog"
	"instep/internal/mediatype"
	"instep/resourcesync"
)

// Link is a link that a rule adds to the entry of each resource that matches the rule (1.1
// §14).
type Link struct {
	Rel string // a link relation registered with IANA, or a URI
	// Href is the URI of the target. The following placeholders are replaced,
	// percent-encoded: {path} by the path of the resource below the directory, {dir} by the
	// directory of the path, with a slash at the end unless it is empty, {name} by the file
	// name, {stem} by the file name without its extension, and {base} by the base URL. A
	// Href without a scheme or {base} is the path of a file of the same set. No link is
	// added while the set has no such file.
	Href string
	Type string // media type of the target; if it is "", the file name and the rules determine the media type
	Pri  int    // the priority of the link (attribute "pri"), from 1 to MaxPri; 0 means no priority
}

// MaxPri is the largest value of the "pri" attribute of a link (1.1 §7).
const MaxPri = 999_999

// maxRuleLinks is the largest number of links in the rules of a set, and therefore of
// links that rules give to one entry.
const maxRuleLinks = 32

// singleRelations has the relations of which an entry may have only one link. If several
// rules give such a link, the link of the first rule is used.
var singleRelations = []string{resourcesync.RelCanonical, resourcesync.RelVia, resourcesync.RelMemento, resourcesync.RelTimeGate, resourcesync.RelTimeMap}

// bareRelations has the relations whose links must not state length, digests and type. The
// target of a duplicate link has the same bytes as the resource (1.1 §14.2), and a TimeGate
// has no bytes of its own (1.1 §14.6).
var bareRelations = []string{resourcesync.RelDuplicate, resourcesync.RelTimeGate}

// documentRels has the relations with which ResourceSync documents link to each other.
// Resources may not have such links.
var documentRels = []string{resourcesync.RelUp, resourcesync.RelIndex, resourcesync.RelContents, resourcesync.RelArchives, resourcesync.RelSource}

// Check returns an error if the link is invalid, whatever resource it is added to.
func (l *Link) Check() error {
	switch {
	case l.Rel == "" || l.Href == "":
		return errors.New("expected a link with rel and href")
	case slices.Contains(documentRels, l.Rel):
		return fmt.Errorf("rel %q links one document to another, so a resource cannot have such a link", l.Rel)
	case l.Rel == resourcesync.RelPatch:
		return fmt.Errorf("rel %q is about one change, so no rule can give such a link", l.Rel)
	case l.Pri < 0 || l.Pri > MaxPri:
		return fmt.Errorf("expected a pri from 1 to %d, found %d", MaxPri, l.Pri)
	case slices.Contains(bareRelations, l.Rel) && l.Type != "":
		return fmt.Errorf("expected no type for a link with rel %q, since its target has the type of the resource", l.Rel)
	}
	sample := l.expand("https://example.org/", "dir/stem.ext")
	if strings.ContainsAny(sample, "{}") {
		return fmt.Errorf("href %q: expected {base}, {path}, {dir}, {name} or {stem} between braces", l.Href)
	}
	if l.OfSet() {
		if _, ok := FileOf("", sample); !ok {
			return fmt.Errorf("href %q: expected a URI, or the path of a file below the directory", l.Href)
		}
		return nil
	}
	u, err := url.Parse(sample)
	if err == nil {
		err = checkEntry(resourcesync.Entry{Loc: "http://example.org/", Links: []resourcesync.Link{{Rel: l.Rel, Href: sample, Type: l.Type, Pri: l.Pri}}})
	}
	switch {
	case err != nil:
		return fmt.Errorf("href %q: %w", l.Href, err)
	case u.User != nil:
		return errors.New("the href has a user name or a password, which every reader would see")
	case len(l.Href) > maxLabels:
		return fmt.Errorf("expected an href of at most %d bytes", maxLabels)
	}
	if l.Rel == resourcesync.RelAlternate && l.Type == "" && l.typeByName(sample) == "" {
		return errors.New(`expected a type for a link with rel "alternate", because readers choose a representation by its type`)
	}
	return nil
}

// OfSet reports whether the target is a file of the set.
func (l *Link) OfSet() bool {
	scheme, _, ok := strings.Cut(l.Href, ":")
	return !strings.HasPrefix(l.Href, inBase) && (!ok || scheme == "" || strings.ContainsAny(scheme, "/{}?#"))
}

// inBase is the beginning of a Href whose target is below the base URL.
const inBase = "{base}"

func (l *Link) expand(base, path string) string {
	dir := path[:strings.LastIndexByte(path, '/')+1]
	name := path[len(dir):]
	stem := name
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		stem = name[:i]
	}
	return strings.NewReplacer(inBase, base, "{path}", URI("", path), "{dir}", URI("", dir), "{name}", URI("", name), "{stem}", URI("", stem)).Replace(l.Href)
}

func (l *Link) typeByName(uri string) string {
	path, _, _ := strings.Cut(uri, "?")
	return mediatype.ByName(path)
}

// Links returns the links that rules and link files add to the resource at a path, in
// the form of catalog.Resource.Remainder.
func (d *Dir) Links(ctx context.Context, path string) (string, error) {
	return d.remainder(ctx, path, RuleFor(d.Rules, path).Links)
}

func (d *Dir) remainder(ctx context.Context, path string, rules []Link) (string, error) {
	own, err := d.linkFile(path)
	if err != nil {
		return "", err
	}
	return linksText("", append(own, rules...), func(l *Link) (resourcesync.Link, bool, error) {
		if !l.OfSet() {
			return l.linkToURI(d.BaseURL, path), true, nil
		}
		return d.linkToFile(ctx, path, l)
	})
}

// linksText adds the links of rules to the text of a Remainder, and returns the new text.
func linksText(text string, rules []Link, resolve func(*Link) (resourcesync.Link, bool, error)) (string, error) {
	if len(rules) == 0 {
		return text, nil
	}
	r, err := resourcesync.ParseRemainder(text)
	if err != nil {
		return "", err
	}
	for i := range rules {
		link, ok, err := resolve(&rules[i])
		if err != nil {
			return "", err
		}
		again := func(have resourcesync.Link) bool {
			return have.Rel == link.Rel && (have.Href == link.Href || slices.Contains(singleRelations, link.Rel))
		}
		if ok && !slices.ContainsFunc(r.Links, again) {
			r.Links = append(r.Links, link)
		}
	}
	return r.Text()
}

// linkToURI returns the link that a rule gives to the resource at a path below base. It is
// for rules whose links do not lead to a file of the set.
func (l *Link) linkToURI(base, path string) resourcesync.Link {
	link := resourcesync.Link{Rel: l.Rel, Href: l.expand(base, path), Type: l.Type, Pri: l.Pri}
	if link.Rel == resourcesync.RelAlternate && link.Type == "" {
		link.Type = l.typeByName(link.Href)
	}
	return link
}

// linkToFile returns the link that a rule gives to the resource at a path. It is for rules
// whose links lead to a file of the set. It returns false if there is no such file, or if
// that file is the resource itself.
func (d *Dir) linkToFile(ctx context.Context, path string, l *Link) (resourcesync.Link, bool, error) {
	target, ok := FileOf("", l.expand(d.BaseURL, path))
	if !ok || target == path {
		return resourcesync.Link{}, false, nil
	}
	_, reason, err := d.locate(target)
	if errors.Is(err, fs.ErrNotExist) || err == nil && reason != "" {
		return resourcesync.Link{}, false, nil
	}
	if err != nil {
		return resourcesync.Link{}, false, fmt.Errorf("examine %q, the target of the link of a rule: %w", target, err)
	}
	spelled, err := d.Spelled(ctx, []string{target})
	if err != nil {
		return resourcesync.Link{}, false, err
	}
	link := resourcesync.Link{Rel: l.Rel, Href: d.uri(target, spelled[target]), Type: l.Type, Pri: l.Pri}
	if link.Type == "" && !slices.Contains(bareRelations, l.Rel) {
		if link.Type = RuleFor(d.Rules, target).Type; link.Type == "" {
			link.Type = mediatype.ByName(target)
		}
		if link.Type == "" && l.Rel == resourcesync.RelAlternate {
			link.Type = mediatype.Unknown
		}
	}
	return link, true, nil
}

// Representations returns the paths of the files that are representations of the generic
// URI with the given path below base (1.1 §14.3): rules link them to that URI with
// rel="canonical". The paths are in the order of the rules. A file is found only if its
// name is the name in the URI plus an extension, and if the glob of the rule ends in this
// extension, such as *.html or *.{html,pdf}.
func Representations(rules []Rule, base, path string) (all []string) {
	generic := URI(base, path)
	for _, r := range rules {
		if !slices.ContainsFunc(r.Links, isCanonical) {
			continue
		}
		for _, extension := range extensions(r.Match) {
			name := path + "." + extension
			links := RuleFor(rules, name).Links
			i := slices.IndexFunc(links, isCanonical)
			if i >= 0 && links[i].expand(base, name) == generic && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func isCanonical(l Link) bool { return l.Rel == resourcesync.RelCanonical }

// extensions returns the file name extensions of the names that a glob matches, such as
// html and pdf for *.{html,pdf}.
func extensions(match string) []string {
	i := strings.LastIndexByte(match, '.')
	if i < 0 {
		return nil
	}
	end := strings.TrimSuffix(strings.TrimPrefix(match[i+1:], "{"), "}")
	return slices.DeleteFunc(strings.Split(end, ","), func(s string) bool { return s == "" || strings.ContainsAny(s, "*?[]{}/\\") })
}

// hasFileLinks reports whether rules or link files may link one file of the set to
// another, so that the links of a file can change although the file itself does not.
func (d *Dir) hasFileLinks() bool {
	return d.LinkFiles || slices.ContainsFunc(d.Rules, func(r Rule) bool {
		return slices.ContainsFunc(r.Links, func(l Link) bool { return l.OfSet() })
	})
}

// linksChanged reports whether the present links of a member differ from the recorded ones,
// or cannot be determined.
func (d *Dir) linksChanged(ctx context.Context, known *catalog.Resource, path string) bool {
	said, err := d.Links(ctx, path)
	return err != nil || said != known.Remainder
}

func checkLinks(rules []Rule) error {
	left := maxRuleLinks
	for i := range rules {
		if left -= len(rules[i].Links); left < 0 {
			return fmt.Errorf("expected at most %d links in the rules of a set", maxRuleLinks)
		}
		for n := range rules[i].Links {
			if err := rules[i].Links[n].Check(); err != nil {
				return fmt.Errorf("rule for %q: %w", rules[i].Match, err)
			}
		}
	}
	return nil
}
