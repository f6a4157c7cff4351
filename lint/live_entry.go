package lint

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"instep/fetch"
	"instep/resourcesync"
)

// mostListedLinks is the largest number of links in one entry whose targets are
// requested.
const mostListedLinks = 8

// target is a resource to check: that of an entry, or the target of a link. The fields
// contain what the document states about it.
type target struct {
	uri, label          string // label names the target in messages
	digests             resourcesync.Digests
	length              resourcesync.Length
	mediaType, encoding string
}

func (t *target) hasFixity() bool { return len(t.digests) > 0 || t.length.Known() }

func (t *target) isDescribed() bool {
	return t.hasFixity() || t.mediaType != "" || t.encoding != ""
}

func (r *liveRun) checkListed(ctx context.Context, e *entry) error {
	r.doc.Requested++
	t := target{e.Loc, fmt.Sprintf("%q", e.Loc), e.Digests, e.Length, e.Type, e.Encoding}
	got, err := r.get(ctx, t.uri, "", t.digests, r.needsBody(e, &t))
	switch {
	case errors.Is(err, fetch.NotFound) && r.describesBytes():
		return r.notFound(ctx, e, err)
	case err != nil:
		return r.unreached(ctx, t.uri, findingAt(e), err)
	}
	r.compare(e, &t, got)
	r.modified(e, got)
	if err := r.checkNewer(ctx, e, &t, got); err != nil {
		return err
	}
	if err := r.checkNegotiation(ctx, e, &t, got); err != nil {
		return err
	}
	n := 0
	for i := range e.Links {
		l := &e.Links[i]
		link := target{l.Href, fmt.Sprintf("%q, to which a link with rel=%q leads,", l.Href, l.Rel), l.Digests, l.Length, l.Type, l.Encoding}
		r.patchType(e, l)
		mirror := l.Rel == resourcesync.RelDuplicate && r.describesBytes()
		if !isHTTP(l.Href) || !mirror && !link.isDescribed() {
			continue
		}
		if n++; n > mostListedLinks {
			break
		}
		if err := r.checkLink(ctx, e, &link, mirror, got); err != nil {
			return err
		}
	}
	return nil
}

// contentTypes has general media types. The type of a patch should be a special one that
// says how the patch is applied.
var contentTypes = map[string]bool{
	"application/octet-stream": true, "application/json": true, "application/xml": true, "text/xml": true,
	"text/plain": true, "text/html": true, "text/csv": true, "application/pdf": true,
	"application/gzip": true, "application/zip": true,
}

// patchType checks whether the media type of a patch says how the patch is applied.
// It cannot check whether the patch yields the next version, since servers no longer have
// the previous version.
func (r *liveRun) patchType(e *entry, l *resourcesync.Link) {
	rule := r.active("ln-patch-type-unambiguous", r.kind)
	if rule != nil && l.Rel == resourcesync.RelPatch && contentTypes[essence(l.Type)] {
		r.atEntry(rule, e, "the type %q of the patch %q does not say how to apply it", l.Type, l.Href)
	}
}

func findingAt(e *entry) Finding { return Finding{Line: e.Line, Column: e.column, Entry: e.Loc} }

func (r *liveRun) describesBytes() bool { return r.kind == "resourcelist" || r.kind == "changelist" }

func (r *liveRun) needsBody(e *entry, t *target) bool {
	if !r.describesBytes() {
		return false
	}
	return t.hasFixity() || e.ChangeFreq == resourcesync.Always || e.Link(resourcesync.RelDuplicate) != ""
}

// checkLink compares the target of a link in an entry with the attributes of the link. The
// target of a link to a mirror is also compared with main, the response for the resource of
// the entry.
func (r *liveRun) checkLink(ctx context.Context, e *entry, t *target, mirror bool, main *fetched) error {
	got, err := r.get(ctx, t.uri, "", t.digests, mirror || len(t.digests) > 0)
	if err != nil {
		return r.unreached(ctx, t.uri, findingAt(e), err)
	}
	r.compare(e, t, got)
	const id = "ln-duplicate-same-content"
	if rule := r.active(id, r.kind); rule != nil && mirror && main.read && !got.opaque && !main.opaque && !got.decoded.equal(main.decoded) {
		r.atEntry(rule, e, "the mirror %q serves other bytes than %q", t.uri, e.Loc)
	}
	return nil
}

func (r *liveRun) compare(e *entry, t *target, got *fetched) {
	if r.outdated(e, got.header) {
		return
	}
	r.coding(e, t, got)
	r.fixity(e, t, got)
	if rule := r.active("type-matches-content-type", r.kind); rule != nil {
		if served := got.header.Get("Content-Type"); t.mediaType != "" && served != "" && essence(t.mediaType) != essence(served) {
			r.atEntry(rule, e, "%s is served as %q; the type stated is %q", t.label, served, t.mediaType)
		}
	}
}

// outdated reports whether a resource may have changed after its entry was written. Such a
// resource is not compared with the entry: checkNewer looks it up in the Change Lists.
func (r *liveRun) outdated(e *entry, h http.Header) bool {
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return listsChanges(r.kind) && !r.header.Until.IsZero() // after a list with the attribute "until", another list may have newer changes
	}
	var described time.Time
	for _, d := range []resourcesync.Datetime{e.LastMod, e.Datetime, r.header.At, r.header.Completed, r.header.Until} {
		if !d.IsZero() && d.End().After(described) {
			described = d.End()
		}
	}
	return !described.IsZero() && modified.After(described)
}

// coding compares the content coding of a response with the stated encoding. A response
// without a coding proves nothing if the server negotiates codings, because the request did
// not accept any.
func (r *liveRun) coding(e *entry, t *target, got *fetched) {
	rule := r.active("encoding-matches-content-encoding", r.kind)
	stated := strings.ToLower(t.encoding)
	if rule == nil || stated == got.coding || stated == "" && !t.isDescribed() {
		return
	}
	negotiated := headerHas(got.header, "Vary", "accept-encoding") || headerHas(got.header, "Vary", "*")
	if got.coding != "" || !negotiated {
		r.atEntry(rule, e, "%s is served with Content-Encoding %q; the encoding stated is %q", t.label, got.coding, t.encoding)
	}
}

// headerHas searches a comma-separated header field for an element, ignoring case.
func headerHas(h http.Header, field, want string) bool {
	for _, v := range h.Values(field) {
		for s := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(s), want) {
				return true
			}
		}
	}
	return false
}

// fixity compares the stated length and digests with the bytes in the stated content
// coding. If the response has another coding, fixity only reports whether length and
// digests match the bytes as they were sent.
func (r *liveRun) fixity(e *entry, t *target, got *fetched) {
	stated := strings.ToLower(t.encoding)
	if rule := r.active("length-matches-content-length", r.kind); rule != nil && t.length.Known() && got.length >= 0 && stated == got.coding && got.length != t.length.Int64() {
		r.atEntry(rule, e, "%s is served with Content-Length %d; the length stated is %d", t.label, got.length, t.length.Int64())
	}
	if !got.read {
		if stated == got.coding {
			r.compareLength(e, t, got.length)
		}
		return
	}
	right, other := got.served, got.decoded
	switch {
	case stated == got.coding:
	case stated == "" && !got.opaque:
		right, other = other, right
	default:
		r.otherCoding(e, t, got, got.served)
		return
	}
	if right.describes(t.length, t.digests) {
		r.countHash(t, true)
		return
	}
	r.compareLength(e, t, right.n)
	if rule := r.active("hash-verifies-content", r.kind); rule != nil && !right.holds(t.digests) {
		r.atEntry(rule, e, "%s has the hash %q; the hash stated is %q", t.label, right.hasher.Digests(), t.digests)
	}
	if got.coding == "" || !r.otherCoding(e, t, got, other) {
		r.countHash(t, right.holds(t.digests))
	}
}

// compareLength checks that the stated length is the number of bytes of the resource (RFC
// 2616 §4.4).
func (r *liveRun) compareLength(e *entry, t *target, n int64) {
	if rule := r.active("length-computed-rfc2616", r.kind); rule != nil && t.length.Known() && t.length.Int64() != n {
		r.atEntry(rule, e, "%s has %d bytes; the length stated is %d", t.label, n, t.length.Int64())
	}
}

// otherCoding makes a finding if the stated length and digests match the bytes in another
// content coding than the stated one, and reports whether it did.
func (r *liveRun) otherCoding(e *entry, t *target, got *fetched, b *bytesSeen) bool {
	if !t.hasFixity() || !b.describes(t.length, t.digests) {
		return false
	}
	how := "without a content coding"
	if got.coding != "" && b == got.served {
		how = "with Content-Encoding " + got.coding
	}
	if rule := r.active("quirk-51-coding-and-fixity", r.kind); rule != nil {
		r.atEntry(rule, e, "length and hash are those of %s %s; the encoding stated is %q", t.label, how, t.encoding)
	}
	return true
}

func (r *liveRun) countHash(t *target, holds bool) {
	if len(t.digests) == 0 {
		return
	}
	if r.hashed++; !holds {
		r.failed++
	}
}

// fewestHashes is the number of hashes that must have been compared before a finding says
// that most of them are wrong.
const fewestHashes = 3

func (r *liveRun) reportWrongHashes() {
	rule := r.active("quirk-50-hash-of-other-bytes", r.kind)
	if rule != nil && r.hashed >= fewestHashes && 2*r.failed > r.hashed {
		r.atRoot(rule, "of %d hashes that were compared with the served bytes, %d are wrong", r.hashed, r.failed)
	}
}

// modified compares lastmod with the header Last-Modified.
func (r *liveRun) modified(e *entry, got *fetched) {
	rule := r.active("lastmod-is-http-last-modified", r.kind)
	t, err := http.ParseTime(got.header.Get("Last-Modified"))
	if rule == nil || err != nil || e.LastMod.IsZero() {
		return
	}
	// Times in HTTP headers have no fractions of a second.
	if t.Before(e.LastMod.Time().Truncate(time.Second)) || !t.Before(e.LastMod.End()) {
		r.atEntry(rule, e, "lastmod is %s, and %q is served with Last-Modified %s", e.LastMod, e.Loc, resourcesync.DatetimeOf(t))
	}
}

const (
	// A server that negotiates formats answers one of these Accept headers with another
	// format than it sends for */*.
	acceptPage = "text/html, */*;q=0.1"
	acceptData = "application/rdf+xml, application/json;q=0.9, text/turtle;q=0.9, */*;q=0.1"

	mostTwice = 10 << 20 // the largest size of a resource that is requested a second time, in bytes
)

// checkNegotiation requests a resource again with another Accept header, because an entry
// with hash and length should have the URI of a single representation (1.1 §7). If the bytes
// differ, it repeats the first request, to see whether the resource changes all the time.
func (r *liveRun) checkNegotiation(ctx context.Context, e *entry, t *target, got *fetched) error {
	always := e.ChangeFreq == resourcesync.Always
	varies, changes := r.active("representation-attrs-only-for-representation", r.kind), r.active("changefreq-always-usage", r.kind)
	if !got.read || got.served.n > mostTwice || varies == nil && changes == nil || !t.hasFixity() && !always {
		return nil
	}
	accept := acceptPage
	if strings.Contains(got.header.Get("Content-Type"), "html") {
		accept = acceptData
	}
	differs, err := r.requestDiffers(ctx, t.uri, accept, got)
	if err != nil {
		return err
	}
	if differs {
		if differs, err = r.requestDiffers(ctx, t.uri, "", got); err != nil {
			return err
		}
		switch {
		case differs && !always && changes != nil:
			r.atEntry(changes, e, "%s had other bytes when it was requested again, but changefreq is not \"always\"", t.label)
		case !differs && t.hasFixity() && varies != nil:
			r.atEntry(varies, e, "%s has a stated length or hash, but has other bytes in a response to the header \"Accept: %s\"", t.label, accept)
		}
		return nil
	}
	if always && changes != nil {
		r.atEntry(changes, e, "changefreq is \"always\", but %s had the same bytes when it was requested again", t.label)
	}
	return nil
}

// requestDiffers requests a resource again and reports whether its bytes differ from those
// of the first response. It returns false if the server responds with an error.
func (r *liveRun) requestDiffers(ctx context.Context, uri, accept string, first *fetched) (bool, error) {
	again, err := r.get(ctx, uri, accept, nil, true)
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		return false, nil
	}
	return !again.opaque && !first.opaque && !again.decoded.equal(first.decoded), nil
}
