package resourcesync

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// This file parses the values of attributes and elements. A value that cannot be read
// counts as absent, and the Decoder sends a note about it.

// uri reads a URI. If the URI cannot be used, it returns the reason. It sends a note
// about a URI that is relative or has characters that should be escaped.
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
		d.tolerate(Note{Quirk: QuirkIRI, Rule: rule, Msg: fmt.Sprintf("%q has characters that must be escaped in a URI; kept", clip(uri))})
	} else {
		d.tolerate(Note{Quirk: QuirkRelativeURI, Rule: rule, Msg: fmt.Sprintf("%q is no absolute URI; kept", clip(uri))})
	}
	return uri, ""
}

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

// relation returns a relation type in lower case, but a URI unchanged.
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

// word returns b as a string. To save memory, it returns the same string for the same
// bytes.
func (d *Decoder) word(b []byte) string {
	const maxWords, maxLength = 256, 128
	if w, ok := d.words[string(b)]; ok {
		return w
	}
	w := string(b)
	if len(b) <= maxLength && len(d.words) < maxWords {
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

// notUTC sends a note about a time that is not in the recommended form (1.1 §7).
func (d *Decoder) notUTC(name string, v Datetime) {
	if d.note == nil && d.tolerance == nil {
		return // nobody would receive the note
	}
	n := Note{Quirk: QuirkDatetimeZone, Rule: name + "-utc-recommended", Msg: fmt.Sprintf("%s %s is not in UTC", name, v)}
	if !v.Complete() {
		n.Quirk, n.Msg = QuirkDatePartial, fmt.Sprintf("%s %s is no complete date and time", name, v)
	}
	d.remark(n)
}

// hash parses a list of digests, and leaves out unusable ones. Several entries share
// one array of digests. The array is small, because it stays in memory as long as one
// of these entries.
func (d *Decoder) hash(b []byte) Digests {
	const shared = 15 // length of the array: so many digests fill about 1 KiB
	if d.digests == nil || len(d.digests)+2 > shared {
		d.digests = make(Digests, 0, shared)
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
	if bytes.ContainsAny(b, xmlSpace) { // tabs or line feeds in character references; XML reads literal ones as spaces
		d.remark(Note{Quirk: QuirkHashSpace, Rule: "hash-algorithm-token", Msg: "digests separated by white space other than spaces"})
		for item := range bytes.FieldsFuncSeq(b, func(r rune) bool { return strings.ContainsRune(xmlSpace, r) }) {
			d.digest(item)
		}
		return
	}
	v, quirk, bad := parseDigest(string(b))
	switch {
	case bad != nil && bad.rule == "hash-algorithm-unknown":
		d.remark(Note{Rule: bad.rule, Msg: bad.Error() + "; read as absent"})
		if _, value, _ := bytes.Cut(b, []byte(":")); !isHex(string(value)) {
			d.tolerate(Note{Rule: "hash-hex-digest", Msg: fmt.Sprintf("hash %q: expected hexadecimal digits; read as absent", clip(string(b)))})
		}
		return
	case bad != nil:
		d.tolerate(Note{Rule: bad.rule, Msg: bad.Error() + "; read as absent"})
		return
	case quirk == QuirkHashBase64:
		d.tolerate(Note{Quirk: quirk, Rule: "hash-hex-digest", Msg: fmt.Sprintf("hash %q; read as %s", clip(string(b)), v)})
	case quirk != 0:
		d.remark(Note{Quirk: quirk, Rule: ruleOfSpelling(b), Msg: fmt.Sprintf("hash %q; read as %s", clip(string(b)), v)})
	}
	d.digests = append(d.digests, v)
}

// ruleOfSpelling returns the id of the rule that an unusual spelling of an algorithm
// breaks. It returns "" if only the case differs from the IANA spelling.
func ruleOfSpelling(digest []byte) string {
	name, _, _ := bytes.Cut(digest, []byte(":"))
	if indexOf(bytes.ToLower(name)) != 0 {
		return ""
	}
	return "hash-algorithm-unknown"
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

// maxPri is the largest allowed value of "pri", which means the last choice (1.1
// §14.1).
const maxPri = 999_999

// parseNumber parses a decimal number. Unlike strconv.ParseInt, it does not accept a sign.
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
	msg := fmt.Sprintf("capability %q is not defined", clip(string(c)))
	if meant := nearCapability(string(c)); meant != "" {
		msg += fmt.Sprintf("; did you mean %q?", meant)
	}
	d.remark(Note{Quirk: QuirkCapabilityNew, Rule: rule, Msg: msg})
	return c
}

// nearCapability returns a capability that differs from s in at most two neighbouring
// characters, or "" if there is none.
func nearCapability(s string) Capability {
	for _, c := range slices.Sorted(maps.Keys(demands)) {
		a, b := strings.ToLower(s), string(c)
		for a != "" && b != "" && a[0] == b[0] {
			a, b = a[1:], b[1:]
		}
		for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
			a, b = a[:len(a)-1], b[:len(b)-1]
		}
		if len(a) <= 2 && len(b) <= 2 {
			return c
		}
	}
	return ""
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
		d.tolerate(Note{Rule: "sitemap-priority", Msg: err.Error() + "; read as absent"})
	}
	return p
}

// path reads the path of a package member, and sends a note if it is invalid. It returns
// the path unchanged, because package pack interprets paths.
func (d *Decoder) path(b []byte) string {
	path := string(b)
	rooted := path
	if b[0] != '/' {
		d.tolerate(Note{Quirk: QuirkPath, Rule: "path-leading-slash", Msg: fmt.Sprintf("path %q has no leading slash", clip(path))})
		rooted = "/" + path
	}
	if !isPackagePath(rooted) {
		d.tolerate(Note{Quirk: QuirkPathEscape, Rule: "path-no-traversal", Msg: fmt.Sprintf("path %q names no file of a package", clip(path))})
	}
	return path
}

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
