//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file is a second, small reader of what documents say. It shares nothing with the
// one of the program, so that both can be wrong only in different ways.

// saying is what one document says.
type saying struct {
	capability string
	at, from   time.Time // zero: not told, or not to the second
	doubt      bool      // it contradicts itself, or what led to it
	shifts     bool      // it is a page of another moment than the one before
	all        []statement
	next       []string          // URIs of further pages
	slots      map[string]string // what documents it names, and the capability it names them by
	links      map[string]string // how these are asked for
}

// statement is one entry.
type statement struct {
	uri, spelled string    // as fuzzURI has it, and as it is written
	change       string    // "" where the entry has none
	when         time.Time // zero: not told, or not to the second
	byMod        bool      // when is its lastmod
	length       int64     // -1: not told
	digests      []string  // md5:hex, sha-256:hex
	doubt        bool      // it contradicts itself
	capability   string
}

var errNoDocument = errors.New("neither a urlset nor a sitemapindex")

// readSaying reads a document that was found at base.
func readSaying(body []byte, base string) (*saying, error) {
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \r\n\t")
	d := xml.NewDecoder(bytes.NewReader(body))
	d.CharsetReader = latinReader
	r := sayingReader{w: &saying{slots: map[string]string{}, links: map[string]string{}}, base: base, header: attributes{}}
	for {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%s is no whole document: %w", base, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if len(r.path) == 0 && token.Name.Local != "urlset" && token.Name.Local != "sitemapindex" {
				return nil, errNoDocument
			}
			r.path = append(r.path, token.Name.Local)
			r.text = ""
			r.element(token)
		case xml.CharData:
			r.text += string(token)
		case xml.EndElement:
			r.end()
			if r.path = r.path[:len(r.path)-1]; len(r.path) == 0 {
				r.heading()
				return r.w, nil
			}
		}
	}
}

// latinReader reads the encodings in which every byte is a character.
func latinReader(_ string, in io.Reader) (io.Reader, error) {
	all, err := io.ReadAll(in)
	runes := make([]rune, len(all))
	for i, b := range all {
		runes[i] = rune(b)
	}
	return strings.NewReader(string(runes)), err
}

// attributes are those of all rs:md of one place; a value told in two ways is doubted.
type attributes map[string][]string

func (a attributes) add(e xml.StartElement) {
	for _, at := range e.Attr {
		if !slices.Contains(a[at.Name.Local], at.Value) {
			a[at.Name.Local] = append(a[at.Name.Local], at.Value)
		}
	}
}

func (a attributes) get(name string) string {
	if len(a[name]) == 0 {
		return ""
	}
	return a[name][0]
}

func (a attributes) doubt() bool {
	for _, values := range a {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

type sayingReader struct {
	w      *saying
	base   string
	path   []string
	text   string
	header attributes
	entry  *statement
	md     attributes // of the entry
	mod    string     // lastmod of the entry
}

func (r *sayingReader) element(e xml.StartElement) {
	switch depth := len(r.path); {
	case depth == 2 && (e.Name.Local == "url" || e.Name.Local == "sitemap"):
		r.entry, r.md, r.mod = &statement{length: -1}, attributes{}, ""
	case depth == 2 && e.Name.Local == "md":
		r.header.add(e)
	case depth == 2 && e.Name.Local == "ln":
		ln := attributes{}
		ln.add(e)
		if ln.get("rel") == "next" {
			r.w.next = append(r.w.next, r.link(ln.get("href")))
		}
	case depth == 3 && r.entry != nil && e.Name.Local == "md":
		r.md.add(e)
	}
}

func (r *sayingReader) end() {
	switch depth, name := len(r.path), r.path[len(r.path)-1]; {
	case depth == 3 && r.entry != nil && name == "loc":
		r.entry.spelled = strings.TrimSpace(r.text)
		if r.entry.spelled != "" {
			r.entry.uri = r.resolve(r.entry.spelled)
		}
	case depth == 3 && r.entry != nil && name == "lastmod":
		r.mod = strings.TrimSpace(r.text)
	case depth == 2 && r.entry != nil && (name == "url" || name == "sitemap"):
		r.finish()
	}
}

func (r *sayingReader) resolve(uri string) string {
	u := r.against(uri)
	if u == nil {
		return uri
	}
	return fuzzURI(u)
}

// against is a URI as it is read in the document; nil if it is none.
func (r *sayingReader) against(uri string) *url.URL {
	base, err := url.Parse(r.base)
	if err != nil {
		return nil
	}
	u, err := base.Parse(uri)
	if err != nil {
		return nil
	}
	return u
}

// fuzzURI is one spelling for all that may be the same: without fragment, query, dots,
// double slashes and percent-encoding (RFC 3986 §6.2.2 goes less far). A URI that the
// documents spell in several ways is doubted.
func fuzzURI(u *url.URL) string {
	clean := path.Clean("/" + u.Path)
	if strings.HasSuffix(u.Path, "/") && clean != "/" {
		clean += "/"
	}
	return strings.ToLower(u.Scheme+"://"+u.Host) + clean
}

// link is a URI as it is asked for.
func (r *sayingReader) link(uri string) string {
	u := r.against(uri)
	if u == nil {
		return uri
	}
	u.Fragment = ""
	return u.String()
}

// finish is at the end of an entry.
func (r *sayingReader) finish() {
	e := r.entry
	e.change, e.capability, e.doubt = strings.ToLower(r.md.get("change")), strings.ToLower(r.md.get("capability")), r.md.doubt()
	e.when = told(r.md.get("datetime"))
	for _, other := range []string{r.md.get("at"), r.mod} {
		if e.when.IsZero() {
			e.when = told(other)
			e.byMod = other == r.mod
		}
	}
	if n, err := strconv.ParseInt(r.md.get("length"), 10, 64); err == nil {
		e.length = n
	}
	for _, hash := range strings.Fields(r.md.get("hash")) {
		algorithm, value, _ := strings.Cut(strings.ToLower(hash), ":")
		algorithm = strings.Replace(algorithm, "sha256", "sha-256", 1)
		if _, err := hex.DecodeString(value); err == nil && (algorithm == "md5" || algorithm == "sha-256") {
			e.digests = append(e.digests, algorithm+":"+value)
		}
	}
	if r.entry = nil; e.uri == "" {
		return
	}
	r.w.all = append(r.w.all, *e)
	r.w.slots[e.uri] = e.capability
	r.w.links[e.uri] = r.link(e.spelled)
}

// heading is at the end of the document.
func (r *sayingReader) heading() {
	r.w.capability, r.w.doubt = strings.ToLower(r.header.get("capability")), r.header.doubt()
	r.w.at, r.w.from = told(r.header.get("at")), told(r.header.get("from"))
}

// told reads a time that is told to the second, in the spellings that are met; one
// without a zone is UTC (QUIRKS 31).
func told(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// word is what the documents of one moment say together.
type word struct {
	lists   []*saying // Resource Lists
	changes []*saying // Change Lists
	clock   time.Time // what the Source's clock showed then
	partly  bool      // they lead to documents of other hosts, which are not read here
}

// ruling is what the documents let a mirror hold at a URI.
type ruling struct {
	must, mustNot bool        // neither: they leave it open
	by            []statement // must be kept in bytes: one of these; none: any bytes that the Source ever served
	why           string
}

// judge decides on a URI by what is said now and what was said before.
type judge struct {
	now     word
	before  []word
	whole   bool                  // the run compared with the Resource List, not only with the changes
	answers func(uri string) bool // whether the Source has something there
}

// reading of a URI.
type reading struct {
	listed, once []statement // in Resource Lists now, and before
	last         *statement  // the last change
	from         time.Time
	past         bool // the last change was told of before, and is not now
	doubt        bool
	kinds        map[string]bool // the capabilities of the lists that name it now
}

// read gathers what is said of a URI.
func (j *judge) read(uri string) reading {
	r := reading{kinds: map[string]bool{}}
	spelled := map[string]bool{}
	take := func(ws []*saying, each func(*saying, statement)) {
		for _, w := range ws {
			for _, s := range w.all {
				if s.uri == uri {
					spelled[s.spelled] = true
					r.doubt = r.doubt || w.doubt || s.doubt || len(spelled) > 1
					each(w, s)
				}
			}
		}
	}
	change := func(w *saying, s statement) {
		if s.byMod && s.change != "deleted" && s.when.Before(w.from) { // it is that of the bytes
			s.when = time.Time{}
		}
		switch {
		case s.change != "created" && s.change != "updated" && s.change != "deleted":
			r.doubt = true
		case r.last != nil && !r.last.when.IsZero() && !s.when.IsZero() && s.when.Before(r.last.when):
			r.doubt = true // order and time disagree
		case r.last != nil && s.when.Equal(r.last.when) && !slices.Equal(s.digests, r.last.digests):
			r.doubt = true // two versions of one time
		}
		r.last, r.from = &s, w.from
	}
	for _, b := range j.before {
		take(b.lists, func(_ *saying, s statement) { r.once = append(r.once, s) })
	}
	take(j.now.lists, func(w *saying, s statement) {
		r.kinds[w.capability] = true
		r.doubt = r.doubt || s.change != ""
		r.listed = append(r.listed, s)
	})
	take(j.now.changes, change)
	for _, l := range j.now.lists { // of a Resource List and a dump, both have to name it
		r.doubt = r.doubt || len(r.kinds) > 0 && !r.kinds[l.capability]
	}
	for _, b := range j.before { // another spelling of before may stay beside this one
		for _, list := range b.changes {
			for _, s := range list.all {
				r.doubt = r.doubt || s.uri == uri && len(spelled) > 0 && !spelled[s.spelled]
			}
		}
	}
	for i := len(j.before) - 1; i >= 0 && r.last == nil; i-- { // what a newer list repeats counts as it says it
		r.past = true
		take(j.before[i].changes, change)
	}
	return r
}

// at is the oldest moment of the Resource Lists; zero if one has none.
func (w word) at() time.Time {
	var oldest time.Time
	for i, l := range w.lists {
		if l.at.IsZero() || l.doubt {
			return time.Time{}
		}
		if i == 0 || l.at.Before(oldest) {
			oldest = l.at
		}
	}
	return oldest
}

// older reports whether the lists, or pages of them, are from before some that were read.
func (j *judge) older() bool {
	at := j.now.at()
	for _, b := range j.before {
		was := b.at()
		if slices.ContainsFunc(b.lists, func(l *saying) bool { return l.shifts }) {
			was = slices.MaxFunc(b.lists, func(k, l *saying) int { return k.at.Compare(l.at) }).at
		}
		if at.IsZero() != was.IsZero() || at.Before(was) {
			return true
		}
	}
	return false
}

// behind reports whether a change was told of before that is later than the lists are
// now, and that is not told of any more.
func (j *judge) behind() bool {
	at, last := j.now.at(), time.Time{}
	for _, w := range j.now.changes {
		for _, s := range w.all {
			if s.when.After(last) {
				last = s.when
			}
		}
	}
	for _, b := range j.before {
		for _, w := range b.changes {
			for _, s := range w.all {
				if s.when.After(at) && s.when.After(last) {
					return true
				}
			}
		}
	}
	return false
}

// lacked reports whether lists that are not older than those of now did not name a URI.
func (j *judge) lacked(uri string) bool {
	for _, b := range j.before {
		named := slices.ContainsFunc(b.lists, func(w *saying) bool {
			return slices.ContainsFunc(w.all, func(s statement) bool { return s.uri == uri })
		})
		if !named && len(b.lists) > 0 && !b.at().Before(j.now.at()) {
			return true
		}
	}
	return false
}

// contained reports whether lists that were read are later than a change.
func (j *judge) contained(s *statement) bool {
	return slices.ContainsFunc(j.before, func(b word) bool { return !s.when.IsZero() && !s.when.After(b.at()) })
}

// newer reports whether the lists are later than all that were read, so that what they
// lack is gone.
func (j *judge) newer() bool {
	at := j.now.at()
	for _, l := range j.now.lists { // one that tells changes is no Resource List (QUIRKS 28)
		if l.shifts || slices.ContainsFunc(l.all, func(s statement) bool { return s.change != "" }) { // nor are pages of two moments one list (QUIRKS 6)
			return false
		}
	}
	for _, b := range j.before {
		if was := b.at(); was.IsZero() || !at.After(was) {
			return false
		}
	}
	return !at.IsZero()
}

func (j *judge) ruling(uri string) ruling {
	r := j.read(uri)
	switch {
	case r.doubt:
		return ruling{why: "the documents contradict themselves"}
	case len(r.listed)+len(r.once) == 0 && r.last == nil:
		return ruling{mustNot: true, why: "nothing names it"}
	case j.now.partly || slices.ContainsFunc(j.before, func(b word) bool { return b.partly }):
		return ruling{why: "documents of other hosts are not read here"}
	case j.older() || j.behind():
		return ruling{why: "the documents are older than those before"}
	case len(r.listed) > 0 && j.lacked(uri):
		return ruling{why: "a list of the same moment did not name it"}
	case r.last != nil && r.last.change == "deleted":
		return j.deleted(uri, r)
	case r.last != nil && (j.whole || !j.contained(r.last)):
		return j.changed(r)
	case len(r.listed) > 0 && !j.whole && len(r.once) == 0:
		return ruling{why: "no change tells of it, and only changes were read"}
	case len(r.listed) > 0 && !j.whole:
		return ruling{must: true, by: append(r.listed, r.once...), why: "it is listed as before"}
	case len(r.listed) > 0:
		return ruling{must: true, by: r.listed, why: "it is listed"}
	case j.whole && j.newer():
		return ruling{mustNot: true, why: "a newer list lacks it"}
	}
	return ruling{why: "it was listed, and no evidence says that it is gone"}
}

// misdated reports whether a document has dated a URI later than the clock of its Source was
// then, and what is told of it now is not later than that. Which of two statements about one
// resource came last cannot be told while one of them has a wrong date (docs/promise.md,
// "Clocks and order"), so the mirror may go by either, until a list is newer than that date.
// No other resource is open for it.
func (j *judge) misdated(uri string) bool {
	var wrong, now time.Time
	latest := func(w word, of *time.Time, counts func(time.Time) bool) {
		for _, l := range slices.Concat(w.lists, w.changes) {
			for _, s := range l.all {
				if s.uri == uri && counts(s.when) && s.when.After(*of) {
					*of = s.when
				}
			}
		}
	}
	for _, b := range append(slices.Clone(j.before), j.now) {
		latest(b, &wrong, func(t time.Time) bool { return t.After(b.clock) })
	}
	latest(j.now, &now, func(t time.Time) bool { return !t.After(j.now.clock) })
	return wrong.After(now) && !j.now.at().After(wrong)
}

func (j *judge) deleted(uri string, r reading) ruling {
	at := j.now.at()
	after := !at.IsZero() && (!r.last.when.IsZero() && !r.last.when.Before(at) || r.last.when.IsZero() && !r.from.IsZero() && !r.from.Before(at))
	before := !at.IsZero() && !r.last.when.IsZero() && r.last.when.Before(at)
	switch {
	case len(r.listed) == 0:
		return ruling{mustNot: true, why: "it was deleted, and is not listed"}
	case after:
		return ruling{mustNot: true, why: "it was deleted after the list"}
	case before && j.answers(uri):
		return ruling{must: j.whole, by: r.listed, why: "a list after its deletion names it, and the Source has it"}
	case before: // or the time is that of the version that vanished (QUIRKS 37)
		return ruling{why: "a list after its deletion names it, and the Source has it no more"}
	case !j.answers(uri):
		return ruling{mustNot: true, why: "it was deleted, nobody knows when, and the Source has it no more"}
	}
	return ruling{why: "it was deleted, nobody knows when, and the Source has it"}
}

func (j *judge) changed(r reading) ruling {
	at := j.now.at()
	clear := !at.IsZero() && !r.last.when.IsZero()
	switch {
	case r.past:
		return ruling{why: "a change that was told of is told of no more"}
	case clear && r.last.when.After(at):
		return ruling{must: true, by: []statement{*r.last}, why: "it changed after the list"}
	case len(r.listed) > 0:
		return ruling{must: true, by: append(r.listed, *r.last), why: "it is listed, and changed"}
	case len(j.now.lists) == 0:
		return ruling{must: true, by: []statement{*r.last}, why: "it changed, and there is no list"}
	}
	return ruling{why: "it changed, and is not listed"}
}
