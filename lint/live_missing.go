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
	mostMissing     = 1000 // the number of missing and changed resources that are looked up in the Change Lists at once
	mostChangeLists = 100  // the number of Change Lists that are read for that; of a Source with more, none is
)

// missing is a listed resource that the server does not have, or has with other bytes.
type missing struct {
	Finding
	rule     *Rule
	existed  resourcesync.Datetime // when the resource existed, by the document; zero if unknown
	modified resourcesync.Datetime // when the server got other bytes; zero for a resource that it does not have
}

// change is the last change of a resource in the Change Lists; zero if they have none.
type change struct {
	at      resourcesync.Datetime
	deleted bool
}

// notFound keeps a missing resource for reportMissing, because it may have been deleted after
// the document was made. err is the error of the request.
func (r *liveRun) notFound(ctx context.Context, e *entry, err error) error {
	return r.lookUp(ctx, e, missing{rule: r.active("quirk-59-http-errors", r.kind)}, err.Error())
}

// otherBytes keeps a resource that has other bytes than its entry says, and changed after the
// document was made, for reportMissing.
func (r *liveRun) otherBytes(ctx context.Context, e *entry, t *thing, got *fetched) error {
	modified, err := http.ParseTime(got.header.Get("Last-Modified"))
	if err != nil || !r.describesBytes() || e.ChangeFreq == resourcesync.Always || !got.read || got.opaque || !r.outdated(e, got.header) ||
		got.served.describes(t.length, t.digests) || got.decoded.describes(t.length, t.digests) {
		return nil
	}
	m := missing{rule: r.active("quirk-50-hash-of-other-bytes", r.kind), modified: resourcesync.DatetimeOf(modified)}
	return r.lookUp(ctx, e, m, fmt.Sprintf("%s has other bytes than listed, and was changed after that, at %s", t.label, m.modified))
}

func (r *liveRun) lookUp(ctx context.Context, e *entry, m missing, message string) error {
	if m.rule == nil {
		return nil
	}
	m.Finding, m.existed = place(e), r.header.At
	if ofChanges(r.kind) {
		m.existed = timeOf(&e.Entry)
	}
	m.Message = message
	if r.missing = append(r.missing, m); len(r.missing) < mostMissing {
		return nil
	}
	return r.reportMissing(ctx)
}

// timeOf returns the time of a change. Version 1.0 has it in lastmod.
func timeOf(e *resourcesync.Entry) resourcesync.Datetime { return cmp.Or(e.Datetime, e.LastMod) }

// reportMissing makes findings of the missing resources that no later Change List names as
// deleted, and of the changed resources of which none names a later change. It returns an error
// only if ctx is done.
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
		if text, bad := r.judge(&m, last[m.Entry], known); bad {
			m.Message += text
			r.report(m.rule, m.Finding)
		}
	}
	r.missing = nil
	return ctx.Err()
}

// justNow is how long a publisher without Change Lists may take to list a change.
const justNow = time.Minute

// judge reports whether a resource is a mistake of the Source, and what to add to the message.
// c is its last change in the Change Lists, which are known if they could be read.
func (r *liveRun) judge(m *missing, c change, known bool) (text string, bad bool) {
	if !m.modified.IsZero() {
		if known {
			return "; no Change List names the change: publish again",
				c.at.IsZero() || !m.existed.IsZero() && !c.at.End().After(m.existed.End())
		}
		return "; if that is not listed elsewhere, publish again", r.l.Now().Sub(m.modified.Time()) > justNow
	}
	if known {
		text = ", although by the lists of the Source it still exists"
	} else {
		text = "; if it was deleted after the list was made, the next list shows it"
	}
	return text, !c.deleted || c.at.Before(m.existed)
}

// readChanges calls see with each change in the Change Lists of the document's set, but not
// for those that end before a time. It returns false if there are none or too many, or if one
// cannot be read.
func (r *liveRun) readChanges(ctx context.Context, since resourcesync.Datetime, see func(*document.Document, *resourcesync.Entry)) bool {
	up, err := new(weblink.Page).Resolve(r.uri, r.header.Link(resourcesync.RelUp))
	if err != nil || up == r.uri { // without a link
		return false
	}
	var lists []string // grows while it is read, by the parts of indexes
	add := func(d *document.Document, e *resourcesync.Entry) {
		if !e.Until.Before(since) && len(lists) <= mostChangeLists {
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
				see(d, e)
			case i < indexes:
				add(d, e)
			}
		})
	}
	return read && len(lists) > 0
}

// readEntries calls see with each entry of a document. It returns false if the document cannot
// be read.
func (l *Live) readEntries(ctx context.Context, uri string, see func(*document.Document, *resourcesync.Entry)) bool {
	in := document.Reader{From: l.Client, Limits: l.Checker.Limits, Once: true}
	in.Entry = func(d *document.Document, e *resourcesync.Entry, err error) error {
		if err == nil {
			see(d, e)
		}
		return nil
	}
	_, err := in.Read(ctx, uri)
	return err == nil
}
