package resourcesync

import "fmt"

type entryReader struct {
	d         *Decoder
	e         *Entry
	bad, rule string // first reason why the entry cannot be used, and the id of the broken rule; "" for a usable entry

	hasLoc, hasMD                 bool
	hasLastMod, hasFreq, hasPrior bool
}

func (in *entryReader) read() error {
	d := in.d
	switch {
	case d.form == formResync:
		return in.resyncItem()
	case d.form == formSitemap && len(d.s.attrs) > 0:
		d.tolerate(Note{Rule: "entry-no-attributes", Msg: "attributes of an entry are ignored"})
	}
	for depth := len(d.s.opens); ; {
		tok, err := d.nextChild()
		if err != nil {
			return err
		}
		if tok == tokEnd && len(d.s.opens) < depth {
			return nil
		}
		if err := in.child(); err != nil {
			return err
		}
	}
}

func (in *entryReader) child() error {
	d := in.d
	if d.form == formAtom {
		return in.atomChild()
	}
	switch d.spaceOfElem() {
	case spaceSitemap:
		switch string(d.s.elem.local) {
		case "loc":
			return in.loc()
		case "lastmod":
			return in.text(&in.hasLastMod, func(b []byte) { in.e.LastMod = d.datetime(b, "lastmod") })
		case "changefreq":
			return in.text(&in.hasFreq, func(b []byte) { in.e.ChangeFreq = d.changeFreq(b) })
		case "priority":
			return in.text(&in.hasPrior, func(b []byte) { in.e.Priority = d.priority(b) })
		}
	case spaceRS:
		d.related = true
		if !in.hasLoc {
			d.remark(Note{Quirk: QuirkElementOrder, Msg: "an element of ResourceSync before loc"})
		}
		switch string(d.s.elem.local) {
		case "md":
			in.metadata()
			return d.skip()
		case "ln":
			return d.link(&in.e.Links)
		}
	}
	return d.foreignChild()
}

// metadata reads the attributes of an rs:md, or of the element that a draft uses
// instead. A second rs:md of the same entry may add attributes, but must not contradict
// the first one.
func (in *entryReader) metadata() {
	if !in.hasMD {
		in.hasMD = true
		in.d.metadata(&in.e.Metadata)
		return
	}
	const rule = "entry-md-not-repeatable"
	var more Metadata
	in.d.metadata(&more)
	if name := in.e.merge(&more); name != "" {
		in.fault(rule, fmt.Sprintf("the entry has two rs:md with different values of %s; expected one", name))
		return
	}
	in.d.tolerate(Note{Quirk: QuirkTwoMetadata, Rule: rule, Msg: "the entry has two rs:md; read as one"})
}

// fault stores the reason why the entry cannot be used. Only the first reason is
// stored.
func (in *entryReader) fault(rule, why string) {
	if in.bad == "" {
		in.rule, in.bad = rule, why
	}
}

func (in *entryReader) verdict() (rule, why string) {
	if !in.hasLoc {
		in.fault(in.d.ruleHere("entry-loc-required", "dlib-loc-required"), "the entry has no loc")
	}
	return in.rule, in.bad
}

func (in *entryReader) loc() error {
	text, ok, err := in.d.text()
	switch {
	case err != nil:
		return err
	case !ok && !in.hasLoc:
		in.fault(ruleLoc, "loc contains elements; expected a URI")
		in.hasLoc = true
	default:
		if in.d.padded {
			in.d.remark(Note{Quirk: QuirkSpaceAround, Rule: ruleLoc, Msg: "white space around a loc"})
		}
		in.setLoc(text)
	}
	return nil
}

const (
	ruleLoc  = "loc-absolute-uri"
	ruleHref = "ln-href-absolute-uri"
)

func (in *entryReader) setLoc(uri []byte) {
	if in.hasLoc {
		in.fault("entry-loc-single", "the entry has two loc; expected one")
		return
	}
	in.hasLoc = true
	switch loc, why := in.d.uri(uri, ruleLoc); {
	case len(uri) == 0:
		in.fault(in.d.ruleHere("entry-loc-required", "dlib-loc-required"), "loc "+why)
	case why != "":
		in.fault(ruleLoc, "loc "+why)
	default:
		in.e.Loc = loc
	}
}

// text reads an element that may occur only once, and calls store with its text. If *seen
// is true, the element has already occurred.
func (in *entryReader) text(seen *bool, store func([]byte)) error {
	text, ok, err := in.d.text()
	switch {
	case err != nil:
		return err
	case !ok:
		in.d.tolerate(Note{Rule: "namespace-sitemap", Msg: "an element contains elements where text was expected; read as absent"})
	case *seen:
		in.d.tolerate(Note{Rule: "namespace-sitemap", Msg: "an element occurs a second time; only the first one is used"})
	default:
		store(text)
	}
	*seen = true
	return nil
}

func (d *Decoder) metadata(m *Metadata) {
	for i := range d.s.attrs {
		a := &d.s.attrs[i]
		if a.colon > 0 {
			m.Attrs = append(m.Attrs, d.foreignAttr(a))
			continue
		}
		v := trimSpace(a.value)
		if len(v) == 0 && d.noteEmpty(a) {
			continue
		}
		switch string(a.name) {
		case "capability":
			m.Capability = d.capability(v)
		case "at":
			m.At = d.datetime(v, "at")
		case "completed":
			m.Completed = d.datetime(v, "completed")
		case "from":
			m.From = d.datetime(v, "from")
		case "until":
			m.Until = d.datetime(v, "until")
		case "change":
			m.Change = d.change(v)
		case "datetime":
			m.Datetime = d.datetime(v, "datetime")
		case "hash":
			m.Digests = d.hash(v)
		case "length":
			m.Length = d.length(v)
		case "type":
			m.Type = d.typ(v)
		case "encoding":
			m.Encoding = d.word(v)
		case "path":
			m.Path = d.path(a.value)
		default:
			m.Attrs = append(m.Attrs, d.draftAttr(a))
		}
	}
}

func (d *Decoder) link(links *[]Link) error {
	if err := d.linkTag(links); err != nil {
		return err
	}
	return d.skip()
}

// linkTag reads the start tag of an rs:ln, and appends the link to links. It ignores a
// link whose "rel" or "href" is missing or unusable.
func (d *Decoder) linkTag(links *[]Link) error {
	var l Link
	for i := range d.s.attrs {
		a := &d.s.attrs[i]
		if a.colon > 0 {
			l.Attrs = append(l.Attrs, d.foreignAttr(a))
			continue
		}
		v := trimSpace(a.value)
		if len(v) == 0 && d.noteEmpty(a) {
			continue
		}
		switch string(a.name) {
		case "rel":
			l.Rel = d.relation(v)
		case "href":
			href, why := d.uri(v, ruleHref)
			if why != "" {
				d.tolerate(Note{Rule: ruleHref, Msg: fmt.Sprintf("href %s; the link is ignored", why)})
				return nil
			}
			l.Href = href
		case "modified":
			l.Modified = d.datetime(v, "modified")
		case "hash":
			l.Digests = d.hash(v)
		case "length":
			l.Length = d.length(v)
		case "type":
			l.Type = d.typ(v)
		case "encoding":
			l.Encoding = d.word(v)
		case "path":
			l.Path = d.path(a.value)
		case "pri":
			l.Pri = d.pri(v)
		default:
			l.Attrs = append(l.Attrs, d.foreignAttr(a))
		}
	}
	if err := d.countLink(len(*links)); err != nil {
		return err
	}
	switch {
	case l.Rel == "":
		d.tolerate(Note{Quirk: QuirkLinkIncomplete, Rule: d.place() + "-ln-rel-required", Msg: "rs:ln without rel; the link is ignored"})
	case l.Href == "":
		d.tolerate(Note{Quirk: QuirkLinkIncomplete, Rule: d.place() + "-ln-href-required", Msg: "rs:ln without href; the link is ignored"})
	default:
		*links = append(*links, l)
	}
	return nil
}

// countLink returns an error if the root or the entry has too many rs:ln, or if these
// are too long. The parameter n is the number of rs:ln stored before the current one.
func (d *Decoder) countLink(n int) error {
	size := &d.linkBytes
	if d.inside {
		size = &d.inLinks
	}
	*size += int(d.s.base + int64(d.s.pos) - d.s.elem.at)
	switch {
	case n >= d.s.lim.Links:
		return d.fail(LimitReached, "more than %d rs:ln in the root or in one entry", d.s.lim.Links)
	case *size > d.s.lim.LinkBytes:
		return d.fail(LimitReached, "the rs:ln in the root or in one entry take more than %d bytes", d.s.lim.LinkBytes)
	}
	return nil
}

// noteEmpty is called for an attribute with an empty value. If the standard defines the
// attribute, it sends a note and returns true.
func (d *Decoder) noteEmpty(a *attr) bool {
	rule, defined := ruleOfAttr[string(a.name)]
	if defined {
		if rule == "root-capability-required" && d.inside {
			rule = "capabilitylist-entry-capability-required"
		}
		d.cantRead(string(a.name))
		d.tolerate(Note{Quirk: QuirkEmptyValue, Rule: rule, Msg: fmt.Sprintf("attribute %s is empty; read as absent", a.name)})
	}
	return defined
}

// foreignAttr returns an attribute that the standard does not define here. It sends a
// note, unless the attribute is in the namespace of another vocabulary.
func (d *Decoder) foreignAttr(a *attr) Attr {
	rule := ""
	switch {
	case a.space == spaceNone:
		rule = "ext-attr-prefix"
		if _, defined := ruleOfAttr[string(a.name)]; defined {
			rule = "table3-" + d.place() + "-" + string(d.s.elem.local)
		}
	case a.space == spaceForeign:
	default:
		rule = "ext-attr-namespace"
		if _, defined := ruleOfAttr[string(a.local())]; defined {
			rule = "rs-attr-no-prefix"
		}
	}
	if rule != "" {
		d.tolerate(Note{Quirk: QuirkForeignAttr, Rule: rule, Msg: fmt.Sprintf("the standard does not define attribute %s; it is stored, but has no effect", clip(string(a.name)))})
	}
	return keptAttr(a)
}

func keptAttr(a *attr) Attr {
	return Attr{Space: a.uri, Name: string(a.local()), Value: string(a.value)}
}

// ruleOfAttr has the attributes that the standard defines (1.1 §7), each with the id of
// the rule about its value; "" if there is no such rule.
var ruleOfAttr = map[string]string{
	"capability": "root-capability-required",
	"at":         "at-w3cdtf",
	"completed":  "completed-w3cdtf",
	"from":       "from-w3cdtf",
	"until":      "until-w3cdtf",
	"change":     "change-values",
	"datetime":   "datetime-w3cdtf",
	"modified":   "modified-w3cdtf",
	"hash":       "hash-algorithm-token",
	"length":     "length-integer",
	"type":       "type-media-type-syntax",
	"encoding":   "",
	"path":       "path-leading-slash",
	"pri":        "pri-range",
	"rel":        "",
	"href":       "",
}

// place returns "root" or "entry": the part of the document that is being read. Ids of
// rules contain this word.
func (d *Decoder) place() string {
	if d.inside {
		return "entry"
	}
	return "root"
}
