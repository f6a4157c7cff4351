package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"instep/internal/spool"
	"instep/resourcesync"
)

type item struct {
	Entry resourcesync.Entry
	Part  string // path of the part of a divided manifest that contains the entry; "" for the document itself
}

type document struct {
	header resourcesync.Header
	items  *spool.Log[item]
	bad    int // number of entries that could not be read

	// Facts about all entries, which are needed before the first entry is written.
	withDatetime, withLastMod, withCapability int64
	capability                                resourcesync.Capability // capability of the last entry that has a capability
	differ                                    bool                    // whether entries have different capabilities
	beyond                                    bool                    // whether an entry has an attribute that entries of a Resource List must not have
	latestLastMod, earliestFrom               resourcesync.Datetime
	earliestDatetime                          resourcesync.Datetime
	earliestUndated                           resourcesync.Datetime // the earliest lastmod of the entries without datetime
}

// Close removes the temporary file that holds the entries.
func (d *document) Close() error { return d.items.Close() }

func (c *converter) readWhole(ctx context.Context, r io.Reader) (*document, error) {
	d, err := c.read(ctx, r, "")
	if err != nil || !d.dividesManifest() {
		return d, err
	}
	whole, err := c.mergeParts(ctx, d)
	return whole, errors.Join(err, d.Close())
}

func (c *converter) read(ctx context.Context, r io.Reader, part string) (*document, error) {
	d := &document{items: spool.NewLog[item](c.o.Temp)}
	dec := resourcesync.NewDecoder(r, resourcesync.WithNotes(func(n resourcesync.Note) { c.reportNote(part, n) }))
	for e, err := range dec.Entries() {
		if err == nil {
			err = context.Cause(ctx)
		}
		var bad *resourcesync.DecodeError
		switch {
		case errors.As(err, &bad) && bad.Kind == resourcesync.BadEntry:
			d.bad++
			c.leaveOut(part, bad.Line, bad.Rule, "", bad.Msg)
			continue
		case err == nil:
			err = d.add(item{e, part})
		}
		if err != nil {
			return nil, errors.Join(c.unreadable(part, err), d.Close())
		}
	}
	var err error
	if d.header, err = dec.Header(); err != nil {
		return nil, errors.Join(c.unreadable(part, err), d.Close())
	}
	return d, nil
}

func (d *document) add(it item) error {
	e := &it.Entry
	if !e.Datetime.IsZero() {
		d.withDatetime++
	}
	d.earliestDatetime = earlier(d.earliestDatetime, e.Datetime)
	if !e.LastMod.IsZero() {
		d.withLastMod++
		if e.Datetime.IsZero() {
			d.earliestUndated = earlier(d.earliestUndated, e.LastMod)
		}
		if d.latestLastMod.IsZero() || compare(e.LastMod, d.latestLastMod) > 0 {
			d.latestLastMod = e.LastMod
		}
	}
	d.earliestFrom = earlier(d.earliestFrom, e.From)
	if e.Capability != "" {
		d.withCapability++
		d.differ = d.differ || d.capability != "" && d.capability != e.Capability
		d.capability = e.Capability
	}
	d.beyond = d.beyond || e.Change != "" || e.Path != "" || e.Capability != ""
	return d.items.Append(it)
}

// earlier returns the earlier of two times. A time that is zero is absent.
func earlier(a, b resourcesync.Datetime) resourcesync.Datetime {
	if a.IsZero() || !b.IsZero() && compare(b, a) < 0 {
		return b
	}
	return a
}

// reportNote reports a note of the Decoder as a decision, unless the conversion reports a
// decision of its own about the same value.
func (c *converter) reportNote(part string, n resourcesync.Note) {
	if slices.Contains(decidedHere, n.Quirk) {
		return
	}
	level := Warning
	if n.Legal && n.Quirk != resourcesync.QuirkRelationCase && n.Rule != "hash-algorithm-unknown" { // then 1.1 allows the value as it was written
		level = Info
	}
	c.decide(Decision{Part: part, Line: n.Line, Rule: n.Rule, Level: level, Text: n.Msg})
}

// decidedHere lists the quirks for which the Decoder returns the value as it stands in the
// document. The conversion decides how the value is written, and reports that decision.
var decidedHere = []resourcesync.Quirk{
	resourcesync.QuirkNested, resourcesync.QuirkNoChange, resourcesync.QuirkForeignAttr, resourcesync.QuirkMoment,
	resourcesync.QuirkIRI, resourcesync.QuirkRelativeURI, resourcesync.QuirkPathEscape, resourcesync.QuirkPath,
}

func (c *converter) leaveOut(part string, line int, rule, uri, why string) {
	c.report.LeftOut++
	text := fmt.Sprintf("entry left out: %s", why)
	if uri != "" {
		text = fmt.Sprintf("entry %s left out: %s", uri, why)
	}
	c.decide(Decision{Part: part, Line: line, Rule: rule, Level: Error, URI: uri, Text: text})
}

func (c *converter) unreadable(part string, err error) error {
	var de *resourcesync.DecodeError
	if !errors.As(err, &de) {
		return err
	}
	name := c.o.Name
	if part != "" {
		name += ": part " + part
	}
	return &RefusedError{
		Name: name, Line: de.Line, Column: de.Column, Rule: de.Rule,
		Msg: fmt.Sprintf("%v: %s", de.Kind, de.Msg), Err: de.Err,
	}
}

func isManifest(c resourcesync.Capability) bool {
	return c == resourcesync.CapabilityResourceDumpManifest || c == resourcesync.CapabilityChangeDumpManifest
}

// dividesManifest reports whether the document is an index whose entries are the parts of a
// manifest. In 1.1 a manifest is always a single document (§11.2).
func (d *document) dividesManifest() bool {
	return d.header.Root == resourcesync.SitemapIndex && isManifest(d.header.Capability)
}

// maxDepth limits how deep the indexes of a manifest are nested.
const maxDepth = 4

func (c *converter) mergeParts(ctx context.Context, index *document) (*document, error) {
	if c.o.Open == nil {
		return nil, c.refuse(ruleRoot(index), "unpack the package, and give the path of the manifest in its root", "the manifest is divided into several documents, which must be read from its package")
	}
	c.decide(Decision{Rule: ruleRoot(index), Level: Warning, Text: "a manifest that is divided into several documents; written as one"})
	merged := &document{items: spool.NewLog[item](c.o.Temp), header: index.header}
	merged.header.Root = resourcesync.URLSet
	seen := map[string]bool{path.Base(strings.ReplaceAll(c.o.Name, `\`, "/")): true}
	if err := c.addParts(ctx, merged, index, "", 1, seen); err != nil {
		return nil, errors.Join(err, merged.Close())
	}
	return merged, nil
}

func ruleRoot(d *document) string { return string(d.header.Capability) + "-root-urlset" }

// addParts adds the entries of all parts that an index lists to the merged document. The
// paths of the parts are relative to indexPath.
func (c *converter) addParts(ctx context.Context, merged, index *document, indexPath string, depth int, seen map[string]bool) error {
	rule := ruleRoot(index)
	if index.bad > 0 {
		return c.refuse(rule, "", "%d entries of the index of the manifest can't be read", index.bad)
	}
	for it, err := range index.items.All() {
		if err != nil {
			return err
		}
		name, why := partName(&it.Entry, indexPath)
		switch {
		case why != "":
		case seen[name]:
			why = fmt.Sprintf("part %q was read before", name)
		case depth > maxDepth:
			why = fmt.Sprintf("part %q: the indexes of the manifest are nested more than %d deep", name, maxDepth)
		}
		if why != "" {
			return &RefusedError{Name: c.o.Name, Line: it.Entry.Line, Rule: rule, Msg: why}
		}
		seen[name] = true
		if err := c.addPart(ctx, merged, name, depth, seen); err != nil {
			return err
		}
	}
	return nil
}

// addPart adds the entries of one part to the merged document. The part may itself be an
// index of further parts.
func (c *converter) addPart(ctx context.Context, merged *document, name string, depth int, seen map[string]bool) (err error) {
	f, err := c.o.Open(name)
	if err != nil {
		return &RefusedError{Name: c.o.Name, Rule: ruleRoot(merged), Msg: fmt.Sprintf("part %q of the manifest can't be opened", name), Hint: "check that the package is complete and that FILE is in its root", Err: err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	part, err := c.read(ctx, f, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, part.Close()) }()
	if part.header.Capability != merged.header.Capability {
		return c.refuse(ruleRoot(merged), "", "part %q has the capability %q; expected %q", name, part.header.Capability, merged.header.Capability)
	}
	if part.dividesManifest() {
		return c.addParts(ctx, merged, part, name, depth+1, seen)
	}
	for it, err := range part.items.All() {
		if err == nil && merged.items.Len() >= resourcesync.MaxEntries {
			err = c.refuse("limit-50000-items", "", "the parts of the manifest have more than %d entries in total; 1.1 allows only one manifest per package", resourcesync.MaxEntries)
		}
		if err == nil {
			err = merged.add(it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// partName returns the path of a part of a manifest, relative to the root of the package.
// The path is the attribute "path" of the entry or, if there is none, its loc, resolved
// against the path of the index.
func partName(e *resourcesync.Entry, index string) (name, why string) {
	name = strings.TrimPrefix(e.Path, "/")
	if name == "" && !hasScheme(e.Loc) {
		rel, err := url.PathUnescape(e.Loc)
		if err != nil {
			return "", fmt.Sprintf("%q is not the path of a part of the manifest: %v", e.Loc, err)
		}
		name = strings.TrimPrefix(rel, "/")
		if name == rel {
			name = path.Join(path.Dir(index), rel)
		}
	}
	if !validPath(name) {
		return "", fmt.Sprintf("%q is not the path of a part in the package; expected the attribute \"path\" or a relative loc", e.Loc)
	}
	return name, ""
}
