package sim

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"instep/resourcesync"
)

// document is a published document that switches change before it is sent. Unlike a
// resourcesync.Header, it can have invalid names and values.
type document struct {
	kind     string // the kind of the document: see resourcesync.Header.Kind
	charset  string
	before   string // the text between the XML declaration and the root element
	prefix   string // the prefix of the Sitemap namespace
	root     string
	rs       string // namespace of ResourceSync
	attrs    []attr // the attributes of the root element
	head     []node
	entries  []entry
	trailing string
	at       time.Time // the time in the attribute "at" that was published
}

type attr struct{ name, value string }

// node is an element without children.
type node struct {
	name  string
	attrs []attr
	text  string
}

type entry []node

// happened is the name of a node that is never written. Its text is the published time of a
// change, which a switch may remove from other nodes.
const happened = ""

func (e entry) happened() string {
	if n := find(e, happened); n != nil {
		return n.text
	}
	return ""
}

const (
	sitemapNamespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
	rsNamespace      = "http://www.openarchives.org/rs/terms/"
)

// parseDocument accepts only the documents that package source publishes.
func parseDocument(r io.Reader) (*document, error) {
	dec := resourcesync.NewDecoder(r)
	h, err := dec.Header()
	if err != nil {
		return nil, err
	}
	d := &document{kind: h.Kind(), charset: "UTF-8", root: "urlset", rs: rsNamespace, at: h.At.Time()}
	if h.Root == resourcesync.SitemapIndex {
		d.root = "sitemapindex"
	}
	if h.Capability != "" {
		d.head = append(d.head, metadataNode(&h.Metadata))
	}
	d.head = append(d.head, linkNodes(h.Links)...)
	for en, err := range dec.Entries() {
		if err != nil {
			return nil, err
		}
		d.entries = append(d.entries, entryOf(&en))
	}
	return d, nil
}

func entryOf(en *resourcesync.Entry) entry {
	e := entry{{name: "loc", text: en.Loc}}
	if !en.LastMod.IsZero() {
		e = append(e, node{name: "lastmod", text: en.LastMod.String()})
	}
	if en.ChangeFreq != "" {
		e = append(e, node{name: "changefreq", text: string(en.ChangeFreq)})
	}
	if md := metadataNode(&en.Metadata); len(md.attrs) > 0 {
		e = append(e, md)
	}
	if en.Change != "" {
		e = append(e, node{name: happened, text: en.Datetime.String()})
	}
	return append(e, linkNodes(en.Links)...)
}

func metadataNode(md *resourcesync.Metadata) node {
	length := ""
	if md.Length.Known() {
		length = fmt.Sprint(md.Length.Int64())
	}
	n := node{name: "rs:md"}
	for _, a := range []attr{
		{"capability", string(md.Capability)}, {"at", md.At.String()}, {"completed", md.Completed.String()},
		{"from", md.From.String()}, {"until", md.Until.String()}, {"change", string(md.Change)},
		{"datetime", md.Datetime.String()}, {"hash", md.Digests.String()}, {"length", length},
		{"type", md.Type}, {"encoding", md.Encoding}, {"path", md.Path},
	} {
		if a.value != "" {
			n.attrs = append(n.attrs, a)
		}
	}
	return n
}

func linkNodes(links []resourcesync.Link) (nodes []node) {
	for i := range links {
		l := &links[i]
		n := node{name: "rs:ln", attrs: []attr{{"rel", l.Rel}, {"href", l.Href}}}
		if l.Type != "" {
			n.attrs = append(n.attrs, attr{"type", l.Type})
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func (n *node) get(name string) string {
	if n == nil {
		return ""
	}
	for _, a := range n.attrs {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// set does nothing on a nil node.
func (n *node) set(name, value string) {
	if n == nil {
		return
	}
	for i := range n.attrs {
		if n.attrs[i].name == name {
			n.attrs[i].value = value
			return
		}
	}
	n.attrs = append(n.attrs, attr{name, value})
}

// change does nothing if the node does not have the attribute.
func (n *node) change(name string, to func(string) string) {
	if v := n.get(name); v != "" {
		n.set(name, to(v))
	}
}

func (n *node) drop(names ...string) {
	if n != nil {
		n.attrs = slices.DeleteFunc(n.attrs, func(a attr) bool { return slices.Contains(names, a.name) })
	}
}

func (n *node) rename(from, to string) {
	if n == nil {
		return
	}
	for i := range n.attrs {
		if n.attrs[i].name == from {
			n.attrs[i].name = to
		}
	}
}

func find(nodes []node, name string) *node {
	for i := range nodes {
		if nodes[i].name == name {
			return &nodes[i]
		}
	}
	return nil
}

func (d *document) md() *node { return find(d.head, "rs:md") }
func (e entry) md() *node     { return find(e, "rs:md") }

func (e entry) loc() string {
	if n := find(e, "loc"); n != nil {
		return n.text
	}
	return ""
}

func (d *document) is(kinds ...string) bool { return slices.Contains(kinds, d.kind) }

func (d *document) isList() bool { return d.is("resourcelist", "changelist") }

func (d *document) allMD() (all []*node) {
	if n := d.md(); n != nil {
		all = append(all, n)
	}
	for _, e := range d.entries {
		if n := e.md(); n != nil {
			all = append(all, n)
		}
	}
	return all
}

func (d *document) locs(to func(string) string) {
	for _, e := range d.entries {
		if n := find(e, "loc"); n != nil {
			n.text = to(n.text)
		}
	}
}

func (d *document) links(to func(*node)) {
	each := func(nodes []node) {
		for i := range nodes {
			if nodes[i].name == "rs:ln" {
				to(&nodes[i])
			}
		}
	}
	each(d.head)
	for _, e := range d.entries {
		each(e)
	}
}

// add appends an entry. attrs are alternating names and values of the attributes of its
// rs:md.
func (d *document) add(loc string, attrs ...string) {
	e := entry{{name: "loc", text: loc}}
	if len(attrs) > 0 {
		n := node{name: "rs:md"}
		for i := 0; i+1 < len(attrs); i += 2 {
			n.attrs = append(n.attrs, attr{attrs[i], attrs[i+1]})
		}
		e = append(e, n)
	}
	d.entries = append(d.entries, e)
}

// timeAttrs are the names of the attributes of rs:md that contain a time.
var timeAttrs = []string{"at", "completed", "from", "until", "datetime"}

func (d *document) replaceTimes(to func(string) string) {
	for _, n := range d.allMD() {
		for _, name := range timeAttrs {
			n.change(name, to)
		}
	}
	for _, e := range d.entries {
		if n := find(e, "lastmod"); n != nil {
			n.text = to(n.text)
		}
	}
}

func (d *document) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<?xml version=\"1.0\" encoding=%q?>\n%s", d.charset, d.before)
	element, xmlns := "url", "xmlns"
	if d.root == "sitemapindex" {
		element = "sitemap"
	}
	if d.prefix != "" {
		xmlns += ":" + strings.TrimSuffix(d.prefix, ":")
	}
	b.WriteString("<" + d.prefix + d.root)
	writeAttrs(&b, []attr{{xmlns, sitemapNamespace}, {"xmlns:rs", d.rs}})
	writeAttrs(&b, d.attrs)
	b.WriteString(">")
	d.write(&b, d.head)
	for _, e := range d.entries {
		b.WriteString("\n<" + d.prefix + element + ">")
		d.write(&b, e)
		b.WriteString("</" + d.prefix + element + ">")
	}
	b.WriteString("\n</" + d.prefix + d.root + ">" + d.trailing)
	return b.Bytes()
}

func (d *document) write(b *bytes.Buffer, nodes []node) {
	for i := range nodes {
		n := &nodes[i]
		name := n.name
		if name == happened {
			continue
		}
		if !strings.Contains(name, ":") {
			name = d.prefix + name
		}
		b.WriteString("<" + name)
		writeAttrs(b, n.attrs)
		if n.text == "" {
			b.WriteString("/>")
			continue
		}
		b.WriteString(">")
		_ = xml.EscapeText(b, []byte(n.text)) // the error is ignored: writing to a Buffer never fails
		b.WriteString("</" + name + ">")
	}
}

func writeAttrs(b *bytes.Buffer, attrs []attr) {
	for _, a := range attrs {
		b.WriteString(" " + a.name + `="`)
		_ = xml.EscapeText(b, []byte(a.value)) // the error is ignored: writing to a Buffer never fails
		b.WriteString(`"`)
	}
}
