package convert

import (
	"fmt"
	"strings"

	"instep/resourcesync"
)

func (c *converter) convertHeader(d *document) error {
	c.header = d.header
	if err := c.checkDialect(d); err != nil {
		return err
	}
	if err := c.convertKind(d); err != nil {
		return err
	}
	c.nature = natureOf(&c.header)
	modified := c.dropRootAttrs()
	c.dropRootFields()
	if err := c.convertRootTimes(d, modified); err != nil {
		return err
	}
	if err := c.convertRootLinks(); err != nil {
		return err
	}
	c.header.Dialect = resourcesync.Dialect11
	c.report.Header = c.header
	return nil
}

// checkDialect returns an error if the document has another dialect than the required one.
// It sets oldTimes if lastmod is the time of a change, as it was before 1.1.
func (c *converter) checkDialect(d *document) error {
	want, is := c.o.Dialect, d.header.Dialect
	as10 := false
	switch {
	case is != resourcesync.Dialect11:
	case want != nil:
		as10 = *want == resourcesync.Dialect10
	case natureOf(&d.header).changes:
		as10 = d.items.Len() > 0 && d.withLastMod == d.items.Len() && d.withDatetime == 0
	}
	if as10 {
		is = resourcesync.Dialect10
	}
	if want != nil && *want != is {
		return c.refuse("", "--dialect auto accepts a document of any dialect", "the document is of dialect %v; expected %v", is, *want)
	}
	c.report.Dialect = is
	c.oldTimes = is != resourcesync.Dialect11 && natureOf(&d.header).changes
	if !c.oldTimes {
		return nil
	}
	if as10 && !d.earliestUndated.IsZero() {
		c.noteDocument(natureOf(&d.header).name+"-lastmod-required", "lastmod but no datetime; read as 1.0, where lastmod is the time of a change, and written as datetime")
	}
	d.earliestDatetime = earlier(d.earliestDatetime, d.earliestUndated)
	return nil
}

func (c *converter) convertKind(d *document) error {
	h := &c.header
	if h.Capability == "" {
		if d.beyond || !h.From.IsZero() || !h.Until.IsZero() {
			return c.refuse("root-capability-required", "", "the document has no capability, and it is no plain sitemap")
		}
		h.Capability = resourcesync.CapabilityResourceList
		c.noteDocument("root-capability-required", "no capability, as in a plain sitemap; written as a Resource List%s", indexed(h.Root))
	}
	if h.Root == resourcesync.URLSet && d.items.Len() > 0 && d.withCapability == d.items.Len() && !d.differ && d.capability == h.Capability {
		h.Root = resourcesync.SitemapIndex
		c.recast = true // each entry of an index links to a document, and has no capability
		c.noteDocument("root-element-urlset-or-sitemapindex", "a urlset whose entries are all of its own capability %s; written as a sitemapindex", h.Capability)
	}
	if h.Root != resourcesync.SitemapIndex {
		return nil
	}
	old2013 := h.Dialect == resourcesync.DialectDLib || h.Dialect == resourcesync.DialectMid2013
	switch archived, isArchive := strings.CutSuffix(string(h.Capability), "-archive"); {
	case h.Capability == resourcesync.CapabilityCapabilityList:
		h.Root, h.Capability = resourcesync.URLSet, resourcesync.CapabilityDescription
		c.recast, c.entryCapability = true, resourcesync.CapabilityCapabilityList
		c.noteDocument("capabilitylist-index-discouraged", "a Capability List Index; written as a Source Description")
	case isArchive && old2013:
		h.Root = resourcesync.URLSet
		c.recast, c.entryCapability = true, resourcesync.Capability(archived)
		c.noteDocument("dlib-archives-as-sitemapindex", "an archive as sitemapindex; written as a urlset with entries of capability %s", archived)
	}
	return nil
}

func indexed(r resourcesync.Root) string {
	if r == resourcesync.SitemapIndex {
		return " Index"
	}
	return ""
}

// dropRootAttrs removes attributes of the root that version 1.1 does not define. It returns
// the value of the attribute "modified", which is one of them.
func (c *converter) dropRootAttrs() (modified resourcesync.Datetime) {
	h := &c.header
	for _, a := range h.Attrs {
		if a.Space == "" && a.Name == "modified" {
			modified, _ = resourcesync.ParseDatetime(a.Value) // an invalid time counts as absent
		}
	}
	drop := func(a resourcesync.Attr) {
		c.noteDocument(ruleOf(a), "%s of the document, which 1.1 does not have; dropped", shown(a))
	}
	h.Attrs = withoutOurs(h.Attrs, drop)
	h.RootAttrs = withoutOurs(h.RootAttrs, drop)
	return modified
}

func (c *converter) dropRootFields() {
	m := &c.header.Metadata
	for _, name := range m.EntryAttributes() {
		c.noteDocument("table3-root-md", "%s of the document, which only entries have; dropped", name)
	}
	*m = resourcesync.Metadata{
		Capability: m.Capability, At: m.At, Completed: m.Completed, From: m.From, Until: m.Until, Attrs: m.Attrs,
	}
}

// convertRootTimes sets the attributes "at" and "from" of the root if they are required and
// missing. It removes times that documents of this kind must not have.
func (c *converter) convertRootTimes(d *document, modified resourcesync.Datetime) error {
	m, n := &c.header.Metadata, &c.nature
	none := fmt.Sprintf("a %s does not have this attribute", n.name)
	if n.times == noTimes || n.times == changeTimes {
		c.dropTime(&m.At, "root-at-scope", "at", none)
		c.dropTime(&m.Completed, "root-completed-scope", "completed", none)
	}
	if n.times == noTimes || n.times == snapshotTimes {
		c.dropTime(&m.From, "root-from-scope", "from", none)
		c.dropTime(&m.Until, "root-until-scope", "until", none)
	}
	if err := c.setRequiredTime(d, modified); err != nil {
		return err
	}
	if m.Completed.Before(m.At) {
		c.dropTime(&m.Completed, "completed-not-before-at", "completed", "the time is before the \"at\" attribute")
	}
	if m.Until.Before(m.From) {
		c.dropTime(&m.Until, "until-not-before-from", "until", "the time is before the \"from\" attribute")
	}
	return nil
}

func (c *converter) setRequiredTime(d *document, modified resourcesync.Datetime) error {
	m, n := &c.header.Metadata, &c.nature
	switch {
	case !n.required:
	case n.times == snapshotTimes && m.At.IsZero():
		return c.setMissing(&m.At, n.name+"-at-required", "at", "--at DATETIME", []candidate{
			{c.o.At, "as given"}, {modified, "from modified"}, {d.latestLastMod, "the latest lastmod"},
		})
	case n.times == changeTimes && m.From.IsZero():
		earliest := d.earliestDatetime
		if n.windows {
			earliest = d.earliestFrom
		}
		return c.setMissing(&m.From, n.name+"-from-required", "from", "--from DATETIME", []candidate{
			{c.o.From, "as given"}, {earliest, "the time of the earliest change listed"}, {modified, "from modified"},
		})
	}
	return nil
}

func (c *converter) dropTime(t *resourcesync.Datetime, rule, name, why string) {
	if !t.IsZero() {
		c.noteDocument(rule, "%s %s of the document: %s; dropped", name, t, why)
		*t = resourcesync.Datetime{}
	}
}

// candidate is a time that may become the value of a missing attribute.
type candidate struct {
	time   resourcesync.Datetime
	origin string // tells the user where the time comes from
}

// setMissing sets a missing attribute to the first candidate whose time is known. If there
// is none, it returns an error, because an invented time could hide changes from readers.
func (c *converter) setMissing(t *resourcesync.Datetime, rule, name, flag string, candidates []candidate) error {
	for _, f := range candidates {
		if !f.time.IsZero() {
			*t = f.time
			c.noteDocument(rule, "no %q attribute; written as %s, %s", name, f.time, f.origin)
			return nil
		}
	}
	return c.refuse(rule, fmt.Sprintf("%s sets the time", flag), "the %s has no %q attribute, and contains no time that could be used instead", c.nature.name, name)
}

// convertRootLinks converts the links of the root, and adds the link with rel="up" if it is
// missing and required.
func (c *converter) convertRootLinks() error {
	h := &c.header
	h.Links = c.convertLinks(h.Links, item{}, false)
	if h.Link(resourcesync.RelUp) != "" || !c.nature.up {
		return nil
	}
	rule := c.nature.name + "-up-required"
	if c.o.Up == "" {
		target := "its Capability List"
		if h.Capability == resourcesync.CapabilityCapabilityList {
			target = "the Source Description"
		}
		return c.refuse(rule, "--up URL sets the link", "the %s has no up link; 1.1 requires one to %s", c.nature.name, target)
	}
	h.Links = append([]resourcesync.Link{{Rel: resourcesync.RelUp, Href: c.o.Up}}, h.Links...)
	c.noteDocument(rule, "no up link; written as %s, as given", c.o.Up)
	return nil
}
