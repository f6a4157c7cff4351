package lint

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"instep/document"
	"instep/internal/weblink"
	"instep/resourcesync"
)

const (
	mostMissing     = 1000 // the number of resources that are looked up in the Change Lists at once
	mostChangeLists = 100  // the largest number of Change Lists in a Source; if it has more, none is read
)

// missing is a listed resource that the server does not have, or has with other bytes.
type missing struct {
	Finding
	rule     *Rule
	existed  resourcesync.Datetime // the time at which the resource existed according to the document; zero if unknown
	modified resourcesync.Datetime // the Last-Modified of the resource; zero if the server does not have the resource
}

// change is the last change of a resource in the Change Lists; zero if they have none.
type change struct {
	at      resourcesync.Datetime
	deleted bool
}

// notFound stores a missing resource for reportMissing, because the resource may have been
// deleted after the document was made. err is the error of the request.
func (r *liveRun) notFound(ctx context.Context, e *entry, err error) error {
	return r.lookUp(ctx, e, missing{rule: r.active("quirk-59-http-errors", r.kind)}, err.Error())
}

// checkNewer stores a resource for reportMissing if its bytes differ from the entry and its
// Last-Modified is later than the document.
func (r *liveRun) checkNewer(ctx context.Context, e *entry, t *target, got *fetched) error {
	modified, err := http.ParseTime(got.header.Get("Last-Modified"))
	if err != nil || !r.describesBytes() || e.ChangeFreq == resourcesync.Always || !got.read || got.opaque || !r.outdated(e, got.header) ||
		got.served.describes(t.length, t.digests) || got.decoded.describes(t.length, t.digests) {
		return nil
	}
	m := missing{rule: r.active("quirk-50-hash-of-other-bytes", r.kind), modified: resourcesync.DatetimeOf(modified)}
	return r.lookUp(ctx, e, m, fmt.Sprintf("%s has other bytes than listed, because it was changed later, at %s", t.label, m.modified))
}

func (r *liveRun) lookUp(ctx context.Context, e *entry, m missing, message string) error {
	if m.rule == nil {
		return nil
	}
	m.Finding, m.existed = findingAt(e), r.header.At
	if listsChanges(r.kind) {
		m.existed = timeOf(&e.Entry)
	}
	m.Message = message
	if r.missing = append(r.missing, m); len(r.missing) < mostMissing {
		return nil
	}
	return r.reportMissing(ctx)
}

// timeOf returns the time of a change, which documents of version 1.0 state in lastmod.
func timeOf(e *resourcesync.Entry) resourcesync.Datetime { return cmp.Or(e.Datetime, e.LastMod) }

// reportMissing makes a finding for each missing resource, unless a Change List names its
// deletion, and for each changed resource, unless a Change List names the change. It returns
// an error only if ctx is done.
func (r *liveRun) reportMissing(ctx context.Context) error {
	if len(r.missing) == 0 {
		return nil
	}
	last := map[string]change{}
	oldest := r.missing[0].existed
	for _, m := range r.missing {
		last[m.Entry] = change{}
		if m.existed.IsZero() || m.existed.Before(oldest) {
			oldest = m.existed
		}
	}
	known := r.readChanges(ctx, oldest, func(d *document.Document, e *resourcesync.Entry) {
		uri := d.Absolute(e.Loc)
		if before, ok := last[uri]; ok && !timeOf(e).Before(before.at) {
			last[uri] = change{timeOf(e), e.Change == resourcesync.Deleted}
		}
	})
	for _, m := range r.missing {
		if text, bad := r.isMistake(&m, last[m.Entry], known); bad {
			m.Message += text
			r.report(m.rule, m.Finding)
		}
	}
	r.missing = nil
	return ctx.Err()
}

// listingDelay is the time that a publisher without Change Lists may take to list a change.
const listingDelay = time.Minute

// isMistake reports whether the Source made a mistake, and returns the end of the message.
// c is the last change of the resource in the Change Lists. If known is false, there are no
// Change Lists that can be read.
func (r *liveRun) isMistake(m *missing, c change, known bool) (text string, bad bool) {
	if !m.modified.IsZero() {
		if known {
			return "; no Change List names the change: publish again",
				c.at.IsZero() || !m.existed.IsZero() && !c.at.End().After(m.existed.End())
		}
		return "; publish again unless another list has the change", r.l.Now().Sub(m.modified.Time()) > listingDelay
	}
	if known {
		text = ", although it still exists according to the lists of the Source"
	} else {
		text = "; if it was deleted after the list was made, the next list shows it"
	}
	return text, !c.deleted || c.at.Before(m.existed)
}

// readChanges calls visit with each change in the Change Lists of the document's set. It
// skips lists that end before the start. It returns false if the set has no Change Lists or
// too many, or if a Change List cannot be read.
func (r *liveRun) readChanges(ctx context.Context, start resourcesync.Datetime, visit func(*document.Document, *resourcesync.Entry)) bool {
	up, err := new(weblink.Page).Resolve(r.uri, r.header.Link(resourcesync.RelUp))
	if err != nil || up == r.uri { // without a link
		return false
	}
	var lists []string // URIs of Change Lists; the loop below appends the parts of each index
	add := func(d *document.Document, e *resourcesync.Entry) {
		if !e.Until.Before(start) && len(lists) <= mostChangeLists {
			lists = append(lists, d.Absolute(e.Loc))
		}
	}
	read := r.l.readEntries(ctx, up, func(d *document.Document, e *resourcesync.Entry) {
		if d.Header.Capability == resourcesync.CapabilityCapabilityList && e.Capability == resourcesync.CapabilityChangeList {
			add(d, e)
		}
	})
	indexes := len(lists)
	for i := 0; i < len(lists) && read; i++ {
		read = len(lists) <= mostChangeLists && r.l.readEntries(ctx, lists[i], func(d *document.Document, e *resourcesync.Entry) {
			switch {
			case d.Header.Capability != resourcesync.CapabilityChangeList:
			case d.Header.Root != resourcesync.SitemapIndex:
				visit(d, e)
			case i < indexes:
				add(d, e)
			}
		})
	}
	return read && len(lists) > 0
}

// readEntries calls visit with each entry of a document. It returns false if the document
// cannot be read.
func (l *Live) readEntries(ctx context.Context, uri string, visit func(*document.Document, *resourcesync.Entry)) bool {
	in := document.Reader{From: l.Client, Limits: l.Checker.Limits, Once: true}
	in.Entry = func(d *document.Document, e *resourcesync.Entry, err error) error {
		if err == nil {
			visit(d, e)
		}
		return nil
	}
	_, err := in.Read(ctx, uri)
	return err == nil
}
