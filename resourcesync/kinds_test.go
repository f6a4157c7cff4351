package resourcesync

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// validHeader is a header of kind k that nothing is wrong with.
func validHeader(t *testing.T, k docKind) Header {
	h := Header{Root: k.Root, Metadata: Metadata{Capability: k.Capability}}
	switch {
	case k.snapshot():
		h.At = mustDatetime(t, "2024-05-01T03:00:00Z")
	case k.changes():
		h.From = mustDatetime(t, "2024-05-01T03:00:00Z")
	}
	if k.Capability != "" {
		h.Links = []Link{{Rel: RelUp, Href: "https://example.org/caps.xml"}}
	}
	return h
}

// validEntry is the same for an entry.
func validEntry(k docKind) Entry {
	e := Entry{Loc: "https://example.org/a"}
	switch {
	case k.is(CapabilityDescription, CapabilityCapabilityList):
		e.Capability = CapabilityCapabilityList
	case k.listsChanges():
		e.Change = Updated
	}
	if k.manifest() {
		e.Path = "/a"
	}
	return e
}

// wantRefused checks that err is an EncodeError about a field, and a rule.
func wantRefused(t *testing.T, what string, err error, field, rule string) {
	t.Helper()
	e, ok := errors.AsType[*EncodeError](err)
	if !ok {
		t.Errorf("%s: got %v, want %s refused by %s", what, err, field, rule)
		return
	}
	if diff := cmp.Diff([]string{e.Field, e.Rule}, []string{field, rule}); diff != "" || e.Msg == "" {
		t.Errorf("%s: %v (-got +want):\n%s", what, err, diff)
	}
}

func TestEncoderRefusesHeadersThatTheirKindForbids(t *testing.T) {
	early, late := mustDatetime(t, "2024-04"), mustDatetime(t, "2024-06")
	for _, k := range docKinds {
		var cases []struct {
			field, rule string
			spoil       func(*Header)
		}
		add := func(field, rule string, spoil func(*Header)) {
			cases = append(cases, struct {
				field, rule string
				spoil       func(*Header)
			}{field, rule, spoil})
		}
		prefix := string(k.Capability)
		if k.Root == SitemapIndex {
			prefix += "-index"
		}
		if k.Capability.Known() && k.Capability != CapabilityDescription {
			add("up", prefix+"-up-required", func(h *Header) { h.Links = nil })
		}
		if k.snapshot() {
			add("at", prefix+"-at-required", func(h *Header) { h.At = Datetime{} })
			add("from", "root-from-scope", func(h *Header) { h.From = early })
			add("until", "root-until-scope", func(h *Header) { h.Until = late })
			add("completed", "completed-not-before-at", func(h *Header) { h.Completed = early })
		}
		if k.changes() {
			add("from", prefix+"-from-required", func(h *Header) { h.From = Datetime{} })
			add("at", "root-at-scope", func(h *Header) { h.At = late })
			add("completed", "root-completed-scope", func(h *Header) { h.Completed = late })
			add("until", "until-not-before-from", func(h *Header) { h.Until = early })
		}
		if k.manifest() {
			add("capability", prefix+"-root-urlset", func(h *Header) { h.Root = SitemapIndex })
		}
		if k.Capability != "" {
			add("capability", "root-capability-required", func(h *Header) { h.Capability = "" })
			add("capability", "root-capability-case", func(h *Header) { h.Capability = "ResourceList" })
			add("rel", "root-ln-rel-required", func(h *Header) { h.Links = append(h.Links, Link{Href: "urn:x"}) })
			add("rel", "ln-rel-registered-or-uri", func(h *Header) { h.Links = append(h.Links, Link{Rel: "up index", Href: "urn:x"}) })
			add("href", "root-ln-href-required", func(h *Header) { h.Links = append(h.Links, Link{Rel: "up"}) })
			add("href", "ln-href-absolute-uri", func(h *Header) { h.Links = append(h.Links, Link{Rel: "up", Href: "a"}) })
		}
		for _, c := range cases {
			h := validHeader(t, k)
			c.spoil(&h)
			_, err := NewEncoder(io.Discard, h)
			wantRefused(t, prefix, err, c.field, c.rule)
		}
		if _, err := NewEncoder(io.Discard, validHeader(t, k)); err != nil {
			t.Errorf("%s: nothing is wrong, but: %v", prefix, err)
		}
	}
}

func TestEncoderRefusesEntriesThatTheirKindForbids(t *testing.T) {
	const patch = "http://www.openarchives.org/rs/terms/patch"
	early, late := mustDatetime(t, "2024-04"), mustDatetime(t, "2024-06")
	patched := func(l Link) func(*Entry) {
		l.Rel, l.Href = patch, "https://example.org/patch"
		return func(e *Entry) { e.Links = []Link{l} }
	}
	for _, k := range docKinds {
		prefix := string(k.Capability)
		if k.Root == SitemapIndex {
			prefix += "-index"
		}
		header := validHeader(t, k)
		if k.changes() {
			header.Until = mustDatetime(t, "2024-05-02T00:00:00Z")
		}
		check := func(field, rule string, spoil func(*Entry)) {
			t.Helper()
			var b bytes.Buffer
			enc, err := NewEncoder(&b, header)
			if err != nil {
				t.Fatal(err)
			}
			e := validEntry(k)
			spoil(&e)
			wantRefused(t, prefix, enc.Encode(e), field, rule)
			if err := errors.Join(enc.Encode(validEntry(k)), enc.Close()); err != nil {
				t.Errorf("%s: nothing is wrong, but: %v", prefix, err)
			}
			if _, entries, _, err := decode(b.String(), WithTolerance(Strict)); err != nil || len(entries) != 1 {
				t.Errorf("%s: %d entries, %v", prefix, len(entries), err)
			}
		}
		bare := func(e *Entry) { e.Metadata = Metadata{} }
		lacking := func(e *Entry) { e.Metadata = Metadata{Length: Bytes(1), Path: e.Path} }
		if k.Capability == "" {
			check("capability", "root-capability-required", lacking)
			continue
		}
		check("rel", "entry-ln-rel-required", func(e *Entry) { e.Links = []Link{{Href: "urn:x"}} })
		check("loc", "entry-loc-required", func(e *Entry) { e.Loc = "" })
		check("loc", "loc-absolute-uri", func(e *Entry) { e.Loc = "a" })
		if !k.Capability.Known() {
			check("completed", "completed-not-before-at", func(e *Entry) { e.At, e.Completed = late, early })
			continue
		}
		switch {
		case k.is(CapabilityCapabilityList):
			check("capability", prefix+"-entry-md-required", bare)
			check("capability", prefix+"-entry-capability-required", lacking)
			check("capability", "entry-capability-case", func(e *Entry) { e.Capability = "resourceList" })
		case k.is(CapabilityDescription) && k.Root == URLSet:
			check("capability", "description-entry-capability-value", lacking)
		case k.listsChanges():
			check("change", prefix+"-entry-md-required", bare)
			check("change", prefix+"-change-required", lacking)
			check("change", "change-values", func(e *Entry) { e.Change = "moved" })
			check("datetime", "datetime-within-interval", func(e *Entry) { e.Metadata.Datetime = early })
			check("datetime", "datetime-within-interval", func(e *Entry) { e.Metadata.Datetime = late })
			check("type", "ln-patch-type-required", patched(Link{}))
		case k.is(CapabilityResourceDumpManifest):
			check("path", prefix+"-entry-md-required", bare)
		}
		if k.manifest() {
			check("path", prefix+"-path-required", func(e *Entry) { e.Path, e.Length = "", Bytes(1) })
			check("path", "path-leading-slash", func(e *Entry) { e.Path = "a" })
			check("path", "path-no-traversal", func(e *Entry) { e.Path = "/a/../b" })
		} else {
			check("path", "path-scope", func(e *Entry) { e.Path = "/a" })
			check("path", "path-scope", func(e *Entry) { e.Links = []Link{{Rel: "alternate", Href: "urn:x:a", Path: "/a"}} })
		}
		if k.is(CapabilityChangeDumpManifest) {
			check("path", "ln-patch-path-required-in-manifest", patched(Link{Type: "text/x-diff"}))
		}
		if !k.listsChanges() {
			check("rel", "ln-patch-scope", patched(Link{Type: "text/x-diff"}))
		}
		if k.entriesHaveAt() {
			check("completed", "completed-not-before-at", func(e *Entry) { e.At, e.Completed = late, early })
		} else {
			check("at", "entry-at-completed-scope", func(e *Entry) { e.At = late })
			check("completed", "entry-at-completed-scope", func(e *Entry) { e.Completed = late })
		}
		if k.entriesHaveFrom() {
			check("until", "until-not-before-from", func(e *Entry) { e.From, e.Until = late, early })
		} else {
			check("from", "entry-from-until-scope", func(e *Entry) { e.From = late })
			check("until", "entry-from-until-scope", func(e *Entry) { e.Until = late })
		}
	}
}
