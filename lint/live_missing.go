package lint

import (
	"cmp"
	"context"

	"instep/document"
	"instep/internal/weblink"
	"instep/resourcesync"
)

const (
	mostMissing     = 1000 // the number of missing resources that are looked up in the Change Lists at once
	mostChangeLists = 100  // the number of Change Lists that are read for that; of a Source with more, none is
)

// missing is a listed resource that the server does not have.
type missing struct {
	Finding
	existed resourcesync.Datetime // when the resource existed, by the document; zero if unknown
}

// change is the last change of a resource in the Change Lists; zero if they have none.
type change struct {
	at      resourcesync.Datetime
	deleted bool
}

// notFound keeps a missing resource for reportMissing, because it may have been deleted after
// the document was made. err is the error of the request.
func (r *liveRun) notFound(ctx context.Context, e *entry, err error) error {
	m := missing{place(e), r.header.At}
	if ofChanges(r.kind) {
		m.existed = timeOf(&e.Entry)
	}
	m.Message = err.Error()
	if r.missing = append(r.missing, m); len(r.missing) < mostMissing {
		return nil
	}
	return r.reportMissing(ctx)
}

// timeOf returns the time of a change. Version 1.0 has it in lastmod.
func timeOf(e *resourcesync.Entry) resourcesync.Datetime { return cmp.Or(e.Datetime, e.LastMod) }

// reportMissing makes findings of the missing resources that no later Change List names as
// deleted. It returns an error only if ctx is done.
func (r *liveRun) reportMissing(ctx context.Context) error {
	rule := r.active("quirk-59-http-errors", r.kind)
	if rule == nil || len(r.missing) == 0 {
		r.missing = nil
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
		if c := last[m.Entry]; c.deleted && !c.at.Before(m.existed) {
			continue
		}
		if known {
			m.Message += ", although by the lists of the Source it still exists"
		} else {
			m.Message += "; if it was deleted after the list was made, the next list shows it"
		}
		r.report(rule, m.Finding)
	}
	r.missing = nil
	return ctx.Err()
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
