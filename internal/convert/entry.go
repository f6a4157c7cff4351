package convert

import (
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"instep/resourcesync"
)

// convertEntry converts an entry to version 1.1. If the entry must be left out, it returns
// the id of the broken rule and a message; otherwise both are "".
func (c *converter) convertEntry(it *item) (rule, why string) {
	e := &it.Entry
	loc, changed, why := c.absoluteURI(e.Loc)
	if why != "" {
		return "loc-absolute-uri", why
	}
	if changed {
		c.noteEntry(*it, "loc-absolute-uri", "loc %q; written as %s", clip(e.Loc), clip(loc))
	}
	e.Loc = loc
	c.convertEntryTimes(it)
	if c.recast {
		e.Capability = c.entryCapability
	}
	if rule, why := c.checkCapability(e); why != "" {
		return rule, why
	}
	e.Attrs = withoutOurs(e.Attrs, func(a resourcesync.Attr) {
		c.noteEntry(*it, ruleOf(a), "%s, which 1.1 does not have; dropped", shown(a))
	})
	if c.nature.manifest && e.Path == "" && e.Link(resourcesync.RelPatch) != "" && e.Change != resourcesync.Deleted {
		return c.nature.name + "-path-required", "the bitstream of the entry is a patch, but a manifest of 1.1 must have the whole resource"
	}
	e.Path = c.packagePath(*it, e.Path)
	e.Links = c.convertLinks(e.Links, *it, true)
	return "", ""
}

// checkCapability rejects the second entry of a Capability List with the same capability.
// It also rejects an entry of a urlset with the capability of the document itself, because
// such a document would be both a list and an index of lists.
func (c *converter) checkCapability(e *resourcesync.Entry) (rule, why string) {
	switch {
	case e.Capability == "":
		return "", ""
	case c.header.Root == resourcesync.URLSet && e.Capability == c.header.Capability:
		return "root-element-urlset-or-sitemapindex", fmt.Sprintf("the entry has the capability of the document, %s, but other entries do not", e.Capability)
	case c.header.Capability != resourcesync.CapabilityCapabilityList:
		return "", ""
	}
	if before, ok := c.listed[e.Capability]; ok {
		return "capabilitylist-one-entry-per-capability", fmt.Sprintf("the entry in line %[2]d has the capability %[1]s, too; 1.1 allows one, which may be an index", e.Capability, before)
	}
	c.listed[e.Capability] = e.Line
	return "", ""
}

func (c *converter) convertEntryTimes(it *item) {
	e, m := &it.Entry, &c.header.Metadata
	if c.oldTimes && e.Datetime.IsZero() {
		e.Datetime = e.LastMod
		if e.Change == resourcesync.Deleted {
			e.LastMod = resourcesync.Datetime{} // a deleted resource has no lastmod
		}
	}
	if c.nature.changes && (e.Datetime.Before(m.From) || e.Datetime.After(m.Until)) {
		c.dropEntryTime(it, &e.Datetime, "datetime-within-interval", "datetime", "the time is outside of the period of the document")
	}
	const scope = "entries of this kind of document must not have this attribute"
	if !c.nature.entryAt {
		c.dropEntryTime(it, &e.At, "entry-at-completed-scope", "at", scope)
		c.dropEntryTime(it, &e.Completed, "entry-at-completed-scope", "completed", scope)
	}
	if !c.nature.entryFrom {
		c.dropEntryTime(it, &e.From, "entry-from-until-scope", "from", scope)
		c.dropEntryTime(it, &e.Until, "entry-from-until-scope", "until", scope)
	}
	if e.Completed.Before(e.At) {
		c.dropEntryTime(it, &e.Completed, "completed-not-before-at", "completed", "the time is before the \"at\" attribute")
	}
	if e.Until.Before(e.From) {
		c.dropEntryTime(it, &e.Until, "until-not-before-from", "until", "the time is before the \"from\" attribute")
	}
}

func (c *converter) dropEntryTime(it *item, t *resourcesync.Datetime, rule, name, why string) {
	if !t.IsZero() {
		c.noteEntry(*it, rule, "%s %s: %s; dropped", name, t, why)
		*t = resourcesync.Datetime{}
	}
}

// packagePath returns the path with exactly one leading slash, or "" if the path is invalid.
func (c *converter) packagePath(it item, path string) string {
	if path == "" {
		return ""
	}
	name := strings.TrimLeft(path, "/")
	switch {
	case !c.nature.manifest:
		c.noteEntry(it, "path-scope", "path %q outside of a manifest; dropped", clip(path))
		return ""
	case !validPath(name):
		c.noteEntry(it, "path-no-traversal", "path %q, which no file in a package can have; dropped", clip(path))
		return ""
	case path != "/"+name:
		c.noteEntry(it, "path-leading-slash", "path %q; written as %q", clip(path), clip("/"+name))
	}
	return "/" + name
}

// validPath reports whether a path without a leading slash can be that of a file in a package.
func validPath(name string) bool {
	return name != "." && fs.ValidPath(name) && !strings.Contains(name, `\`)
}

// withoutOurs removes attributes without a namespace or in a namespace of ResourceSync,
// because 1.1 defines none of them. It keeps attributes of other vocabularies, which 1.1
// allows.
func withoutOurs(attrs []resourcesync.Attr, dropped func(resourcesync.Attr)) []resourcesync.Attr {
	if !slices.ContainsFunc(attrs, looksOurs) {
		return attrs
	}
	var out []resourcesync.Attr
	for _, a := range attrs {
		if looksOurs(a) {
			dropped(a)
			continue
		}
		out = append(out, a)
	}
	return out
}

func looksOurs(a resourcesync.Attr) bool {
	return a.Space == "" || strings.HasPrefix(a.Space, "http://www.openarchives.org/rs/")
}

func ruleOf(a resourcesync.Attr) string {
	if a.Space == "" {
		return "ext-attr-prefix"
	}
	return "ext-attr-namespace"
}

func shown(a resourcesync.Attr) string {
	name := a.Name
	if a.Space != "" {
		name = "rs:" + name
	}
	return fmt.Sprintf("%s=%q", name, clip(a.Value))
}

// clip shortens a long text for a message.
func clip(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// convertLinks leaves out links whose target is not a usable URI, and links to patches that
// version 1.1 does not allow.
func (c *converter) convertLinks(links []resourcesync.Link, it item, ofEntry bool) []resourcesync.Link {
	var out []resourcesync.Link
	for _, l := range links {
		href, changed, why := c.absoluteURI(l.Href)
		switch {
		case why != "":
			c.noteEntry(it, "ln-href-absolute-uri", "%s link: %s; dropped", clip(l.Rel), why)
			continue
		case changed:
			c.noteEntry(it, "ln-href-absolute-uri", "href %q; written as %s", clip(l.Href), clip(href))
			l.Href = href
		}
		l.Attrs = withoutOurs(l.Attrs, func(a resourcesync.Attr) {
			c.noteEntry(it, ruleOf(a), "%s of a link, which 1.1 does not have; dropped", shown(a))
		})
		l.Path = c.packagePath(it, l.Path)
		if rule, why := c.checkPatchLink(&l, ofEntry); why != "" {
			c.noteEntry(it, rule, "%s; dropped", why)
			continue
		}
		out = append(out, l)
	}
	return out
}

// checkPatchLink returns the id of the rule that a link to a patch breaks (1.1 §14.4), and a
// message. Both are "" if the link is allowed.
func (c *converter) checkPatchLink(l *resourcesync.Link, ofEntry bool) (rule, why string) {
	switch {
	case l.Rel != resourcesync.RelPatch:
	case !ofEntry || !c.nature.changes:
		return "ln-patch-scope", "link to a patch outside of an entry for a change"
	case l.Type == "":
		return "ln-patch-type-required", "link to a patch without its type"
	case c.nature.manifest && l.Path == "":
		return "ln-patch-path-required-in-manifest", "link to a patch without its path in the package"
	}
	return "", ""
}

// absoluteURI converts a reference to an absolute URI in ASCII. If that is impossible, it
// returns a message.
func (c *converter) absoluteURI(s string) (out string, changed bool, why string) {
	out = percentEncode(s)
	if hasScheme(out) {
		return out, out != s, ""
	}
	if c.o.BaseURL == nil {
		return "", false, fmt.Sprintf("%q is relative, and --base-url is not given", clip(s))
	}
	rel, err := url.Parse(out)
	if err != nil {
		return "", false, fmt.Sprintf("%q is not a URI", clip(s))
	}
	return c.o.BaseURL.ResolveReference(rel).String(), true, ""
}

// A reference that begins with a scheme is an absolute URI (RFC 3986 §4.2).
func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return false
	}
	for i, b := range []byte(scheme) {
		if !isLetter(b) && (i == 0 || strings.IndexByte("0123456789+-.", b) < 0) {
			return false
		}
	}
	return true
}

// percentEncode encodes characters that are not allowed in a URI (RFC 3987 §3.1), and
// percent signs that are not followed by two hexadecimal digits.
func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if uriByte(s[i]) && (s[i] != '%' || i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

func uriByte(b byte) bool {
	return isLetter(b) || b >= '0' && b <= '9' || b > ' ' && strings.IndexByte("-._~:/?#[]@!$&'()*+,;=%", b) >= 0
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'f'
}
