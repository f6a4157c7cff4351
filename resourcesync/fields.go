package resourcesync

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// entryReader reads the children of one entry.
type entryReader struct {
	d         *Decoder
	e         *Entry
	bad, rule string // why the entry can't be used, and the rule it breaks

	hasLoc, hasMD                 bool
	hasLastMod, hasFreq, hasPrior bool
}

// read reads the entry whose start tag was read.
func (in *entryReader) read() error {
	d := in.d
	switch {
	case d.form == formResync:
		return in.resyncItem()
	case d.form == formSitemap && len(d.s.attrs) > 0:
		d.tolerate(Note{Rule: "entry-no-attributes", Msg: "attributes of an entry are ignored"})
	}
	for depth := len(d.s.opens); ; {
		tok, err := d.s.next()
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

// child reads the element whose start tag was read.
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
			if in.hasMD {
				in.fault("entry-md-not-repeatable", "two rs:md; expected one")
			}
			in.hasMD = true
			d.metadata(&in.e.Metadata)
			return d.skip()
		case "ln":
			return d.link(&in.e.Links)
		}
	}
	return d.foreignChild()
}

// fault keeps the first reason why the entry can't be used.
func (in *entryReader) fault(rule, why string) {
	if in.bad == "" {
		in.rule, in.bad = rule, why
	}
}

// verdict says why the entry can't be used, "" if it can.
func (in *entryReader) verdict() (rule, why string) {
	if !in.hasLoc {
		in.fault(in.d.ruleHere("entry-loc-required", "dlib-loc-required"), "no loc; expected one")
	}
	return in.rule, in.bad
}

func (in *entryReader) loc() error {
	text, ok, err := in.d.text()
	switch {
	case err != nil:
		return err
	case !ok && !in.hasLoc:
		in.fault(ruleLoc, "loc has elements in it; expected a URI")
		in.hasLoc = true
	default:
		if in.d.padded {
			in.d.remark(Note{Quirk: QuirkSpaceAround, Rule: ruleLoc, Msg: "white space around a loc"})
		}
		in.setLoc(text)
	}
	return nil
}

// The rules about URIs.
const (
	ruleLoc  = "loc-absolute-uri"
	ruleHref = "ln-href-absolute-uri"
)

// setLoc takes the URI of the entry.
func (in *entryReader) setLoc(uri []byte) {
	switch loc, why := in.d.uri(uri, ruleLoc); {
	case in.hasLoc:
		in.fault("entry-loc-single", "two loc; expected one")
	case len(uri) == 0:
		in.fault(in.d.ruleHere("entry-loc-required", "dlib-loc-required"), "loc "+why)
	case why != "":
		in.fault(ruleLoc, "loc "+why)
	default:
		in.e.Loc = loc
	}
	in.hasLoc = true
}

// text hands the text of an element that may occur once to set.
func (in *entryReader) text(seen *bool, set func([]byte)) error {
	text, ok, err := in.d.text()
	switch {
	case err != nil:
		return err
	case !ok:
		in.d.tolerate(Note{Rule: "namespace-sitemap", Msg: "elements where text was expected; read as absent"})
	case *seen:
		in.d.tolerate(Note{Rule: "namespace-sitemap", Msg: "an element for the second time; the first one counts"})
	default:
		set(text)
	}
	*seen = true
	return nil
}

// uri reads a URI, or says why it can't be used. What is unusual but harmless is
// noted and left to those who use it.
func (d *Decoder) uri(b []byte, rule string) (uri, why string) {
	if len(b) <= d.s.lim.URI {
		uri = string(b)
		if isAbsoluteURI(uri) {
			return uri, ""
		}
	}
	if why := d.badURI(b); why != "" {
		return "", why
	}
	scheme, _, ok := strings.Cut(uri, ":")
	if ok && scheme != "" && isScheme(scheme) {
		d.tolerate(Note{Quirk: QuirkIRI, Rule: rule, Msg: fmt.Sprintf("%q has characters that a URI can't have as they are; kept", clip(uri))})
	} else {
		d.tolerate(Note{Quirk: QuirkRelativeURI, Rule: rule, Msg: fmt.Sprintf("%q is no absolute URI; kept", clip(uri))})
	}
	return uri, ""
}

// badURI says why b can't be used as a URI, "" if it can.
func (d *Decoder) badURI(b []byte) string {
	if len(b) == 0 {
		return "is empty; expected a URI"
	}
	if len(b) > d.s.lim.URI {
		return fmt.Sprintf("is %d bytes long; at most %d are read", len(b), d.s.lim.URI)
	}
	if hasControl(b) {
		return fmt.Sprintf("%q has a control character", clip(string(b)))
	}
	return ""
}

// metadata reads the attributes of an rs:md.
func (d *Decoder) metadata(m *Metadata) {
	for i := range d.s.attrs {
		a := &d.s.attrs[i]
		if a.colon > 0 {
			m.Attrs = append(m.Attrs, d.foreignAttr(a))
			continue
		}
		v := trimSpace(a.value)
		if len(v) == 0 && d.empty(a) {
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

// link reads an rs:ln into links, unless it leads nowhere.
func (d *Decoder) link(links *[]Link) error {
	if err := d.linkTag(links); err != nil {
		return err
	}
	return d.skip()
}

// linkTag reads the start tag of an rs:ln into links.
func (d *Decoder) linkTag(links *[]Link) error {
	var l Link
	for i := range d.s.attrs {
		a := &d.s.attrs[i]
		if a.colon > 0 {
			l.Attrs = append(l.Attrs, d.foreignAttr(a))
			continue
		}
		v := trimSpace(a.value)
		if len(v) == 0 && d.empty(a) {
			continue
		}
		switch string(a.name) {
		case "rel":
			l.Rel = d.relation(v)
		case "href":
			href, why := d.uri(v, ruleHref)
			if why != "" {
				d.tolerate(Note{Rule: ruleHref, Msg: "href " + why + "; the link is ignored"})
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
	if len(*links) >= d.s.lim.Links {
		return d.fail(LimitReached, "more than %d rs:ln in one place", d.s.lim.Links)
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

// empty reports whether a is an attribute of the standard, and tells that it is
// empty.
func (d *Decoder) empty(a *attr) bool {
	rule, defined := ruleOfAttr[string(a.name)]
	if defined {
		if rule == "root-capability-required" && d.inside {
			rule = "capabilitylist-entry-capability-required"
		}
		d.cantRead(string(a.name))
		d.tolerate(Note{Quirk: QuirkEmptyValue, Rule: rule, Msg: string(a.name) + " is empty; read as absent"})
	}
	return defined
}

// foreignAttr keeps an attribute that the standard does not define.
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
		d.tolerate(Note{Quirk: QuirkForeignAttr, Rule: rule, Msg: fmt.Sprintf("attribute %s is not defined; kept, and not used", clip(string(a.name)))})
	}
	return keptAttr(a)
}

func keptAttr(a *attr) Attr {
	return Attr{Space: a.uri, Name: string(a.local()), Value: string(a.value)}
}

// ruleOfAttr is the rule about the value of each attribute that the standard
// defines (1.1 §7); "" if there is none.
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

// place says whether the element is a child of the root or of an entry, as the
// ids of rules do.
func (d *Decoder) place() string {
	if d.inside {
		return "entry"
	}
	return "root"
}

// relation reads a relation type. Those that are no URI have no case.
func (d *Decoder) relation(b []byte) string {
	rel := d.word(b)
	for i := range b {
		if b[i] == ':' {
			return rel
		}
	}
	folded := strings.ToLower(rel)
	if folded != rel {
		d.remark(Note{Quirk: QuirkRelationCase, Rule: "ln-rel-registered-or-uri", Msg: fmt.Sprintf("rel %q; read as %q", clip(rel), clip(folded))})
	}
	return folded
}

// word returns b as a string, the same one for the same few words.
func (d *Decoder) word(b []byte) string {
	const most, longest = 256, 128
	if w, ok := d.words[string(b)]; ok {
		return w
	}
	w := string(b)
	if len(b) <= longest && len(d.words) < most {
		if d.words == nil {
			d.words = make(map[string]string)
		}
		d.words[w] = w
	}
	return w
}

func (d *Decoder) datetime(b []byte, name string) Datetime {
	v, why := scanDatetime(b, false)
	if why == "" {
		if !v.Complete() || v.off != 0 {
			d.notUTC(name, v)
		}
		return v
	}
	rule := name + "-w3cdtf"
	if v, lenientWhy := scanDatetime(b, true); lenientWhy == "" {
		d.tolerate(Note{Quirk: QuirkDatetimeZone, Rule: rule, Msg: fmt.Sprintf("%s %q: %s; read as %s", name, clip(string(b)), why, v)})
		return v
	}
	d.tolerate(Note{Rule: rule, Msg: fmt.Sprintf("%s %q: %s; read as absent", name, clip(string(b)), why)})
	d.cantRead(name)
	return Datetime{}
}

// notUTC tells of a time that is not written as is recommended (1.1 §7).
func (d *Decoder) notUTC(name string, v Datetime) {
	if d.quiet {
		return
	}
	n := Note{Quirk: QuirkDatetimeZone, Rule: name + "-utc-recommended", Msg: fmt.Sprintf("%s %s is not in UTC", name, v)}
	if !v.Complete() {
		n.Quirk, n.Msg = QuirkDatePartial, fmt.Sprintf("%s %s is no complete date and time", name, v)
	}
	d.remark(n)
}

// hash reads a list of digests. What can't be used is absent: nothing can be
// verified by it, and nothing can fail. The digests of several entries share an
// array, which is small enough for any of them to keep it alive.
func (d *Decoder) hash(b []byte) Digests {
	const several = 15 // make a KiB
	if d.digests == nil || len(d.digests)+2 > several {
		d.digests = make(Digests, 0, several)
	}
	first := len(d.digests)
	for len(b) > 0 {
		item, rest := b, b[len(b):]
		if n := bytes.IndexByte(b, ' '); n >= 0 {
			item, rest = b[:n], trimSpace(b[n:])
		}
		d.digest(item)
		b = rest
	}
	if len(d.digests) == first {
		return nil
	}
	return slices.Clip(d.digests[first:])
}

// digest appends a digest to d.digests if it can be used.
func (d *Decoder) digest(b []byte) {
	if i := bytes.IndexByte(b, ':'); i > 0 {
		alg := indexOf(b[:i])
		if size := algorithms[alg].size; alg != 0 && len(b)-i-1 == 2*size {
			d.digests = append(d.digests, Digest{alg: alg})
			if last := &d.digests[len(d.digests)-1]; decodeHex(last.sum[:size], b[i+1:]) {
				return
			}
			d.digests = d.digests[:len(d.digests)-1]
		}
	}
	if bytes.ContainsAny(b, xmlSpace) { // written as references
		d.remark(Note{Quirk: QuirkHashSpace, Rule: "hash-algorithm-token", Msg: "digests with other white space than blanks between them"})
		for item := range bytes.FieldsFuncSeq(b, func(r rune) bool { return strings.ContainsRune(xmlSpace, r) }) {
			d.digest(item)
		}
		return
	}
	v, quirk, bad := parseDigest(string(b))
	switch {
	case bad != nil && bad.rule == "hash-algorithm-unknown":
		d.remark(Note{Rule: bad.rule, Msg: bad.Error() + "; read as absent"})
		return
	case bad != nil:
		d.tolerate(Note{Rule: bad.rule, Msg: bad.Error() + "; read as absent"})
		return
	case quirk == QuirkHashBase64:
		d.tolerate(Note{Quirk: quirk, Rule: "hash-hex-digest", Msg: fmt.Sprintf("hash %q; read as %s", clip(string(b)), v)})
	case quirk != 0:
		d.remark(Note{Quirk: quirk, Rule: "hash-algorithm-unknown", Msg: fmt.Sprintf("hash %q; read as %s", clip(string(b)), v)})
	}
	d.digests = append(d.digests, v)
}

func (d *Decoder) length(b []byte) Length {
	n, err := parseNumber(b)
	if err != nil {
		d.tolerate(Note{Rule: "length-integer", Msg: fmt.Sprintf("length %q: expected a number of bytes; read as absent", clip(string(b)))})
		return Length{}
	}
	return Bytes(n)
}

func (d *Decoder) pri(b []byte) int {
	n, err := parseNumber(b)
	if err != nil || n < 1 || n > maxPri {
		d.tolerate(Note{Rule: "pri-range", Msg: fmt.Sprintf("pri %q: expected 1 to %d; read as absent", clip(string(b)), maxPri)})
		return 0
	}
	return int(n)
}

// maxPri is the last choice among duplicates (1.1 §14.1).
const maxPri = 999_999

// parseNumber parses decimal digits and nothing else.
func parseNumber(b []byte) (int64, error) {
	if len(b) > 0 && isDigit(b[0]) {
		return strconv.ParseInt(string(b), 10, 64)
	}
	return 0, strconv.ErrSyntax
}

func (d *Decoder) capability(b []byte) Capability {
	c := Capability(d.word(b))
	if c.Known() {
		return c
	}
	if folded := Capability(strings.ToLower(string(c))); folded.Known() {
		d.tolerate(Note{Quirk: QuirkCapabilityCase, Rule: d.place() + "-capability-case", Msg: fmt.Sprintf("capability %q; read as %q", c, folded)})
		return folded
	}
	rule := "root-capability-unknown"
	if d.place() == "entry" {
		rule = "capabilitylist-entry-capability-defined"
	}
	d.remark(Note{Quirk: QuirkCapabilityNew, Rule: rule, Msg: fmt.Sprintf("capability %q is not defined", clip(string(c)))})
	return c
}

func (d *Decoder) change(b []byte) Change {
	switch c := Change(d.word(b)); c {
	case Created, Updated, Deleted:
		return c
	}
	switch folded := Change(strings.ToLower(string(b))); folded {
	case Created, Updated, Deleted:
		d.tolerate(Note{Rule: "change-values", Msg: fmt.Sprintf("change %q; read as %q", b, folded)})
		return folded
	}
	d.tolerate(Note{Rule: "change-values", Msg: fmt.Sprintf("change %q: expected created, updated or deleted; read as absent", clip(string(b)))})
	d.cantRead("change")
	return ""
}

func (d *Decoder) changeFreq(b []byte) ChangeFreq {
	if c := ChangeFreq(d.word(b)); c.Known() {
		return c
	}
	if folded := ChangeFreq(strings.ToLower(string(b))); folded.Known() {
		d.tolerate(Note{Rule: "changefreq-values", Msg: fmt.Sprintf("changefreq %q; read as %q", clip(string(b)), folded)})
		return folded
	}
	d.tolerate(Note{Rule: "changefreq-values", Msg: fmt.Sprintf("changefreq %q: expected always, hourly, daily, weekly, monthly, yearly or never; read as absent", clip(string(b)))})
	return ""
}

func (d *Decoder) priority(b []byte) Priority {
	p, err := ParsePriority(d.word(b))
	if err != nil {
		d.tolerate(Note{Msg: err.Error() + "; read as absent"})
	}
	return p
}

// path keeps a path as it is: what it may name is for the package to decide.
func (d *Decoder) path(b []byte) string {
	path := string(b)
	rooted := path
	if b[0] != '/' {
		d.tolerate(Note{Quirk: QuirkPath, Rule: "path-leading-slash", Msg: fmt.Sprintf("path %q without its leading slash", clip(path))})
		rooted = "/" + path
	}
	if !isPackagePath(rooted) {
		d.tolerate(Note{Quirk: QuirkPathEscape, Rule: "path-no-traversal", Msg: fmt.Sprintf("path %q names no file of a package", clip(path))})
	}
	return path
}

// typ reads a media type.
func (d *Decoder) typ(b []byte) string {
	if string(b) == d.mediaType {
		return d.mediaType
	}
	t := d.word(b)
	if !isMediaType(t) {
		d.tolerate(Note{Rule: "type-media-type-syntax", Msg: fmt.Sprintf("type %q: expected type/subtype; read as absent", clip(t))})
		return ""
	}
	d.mediaType = t
	return t
}
