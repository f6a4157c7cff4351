package source

import (
	"slices"
	"strings"
	"testing"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

// TestDocumentsFollowTheRules reads every document of a life of publications with
// the strict decoder and checks what the standard asks of its kind.
func TestDocumentsFollowTheRules(t *testing.T) {
	s := newSite(t)
	kinds := map[string]int{}
	for _, next := range story(s) {
		s.publish(next())
		for _, key := range keysOf(t, s.bucket) {
			if !strings.HasSuffix(key, ".xml") && key != wellKnownKey {
				continue
			}
			kinds[checkDocument(t, s.bucket, key)]++
		}
	}
	for _, kind := range []string{
		"description", "capabilitylist", "resourcelist", "resourcelist index", "changelist", "changelist index", "", " index",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no document of kind %q was checked", kind)
		}
	}
}

func checkDocument(t *testing.T, b blob.Bucket, key string) string {
	t.Helper()
	h, entries := documentAt(t, b, key)
	c := checker{t, key, h, entries}
	switch h.Capability {
	case "":
		c.check(len(h.Links) == 0, "a plain sitemap has no rs:ln")
	case resourcesync.CapabilityDescription:
		c.describedBy(testBase + aboutKey)
		c.noTimes()
		for _, en := range entries {
			c.check(en.Capability == resourcesync.CapabilityCapabilityList && en.LastMod.IsZero() && en.Link("describedby") != "", "entries describe Capability Lists")
		}
	case resourcesync.CapabilityCapabilityList:
		c.check(h.Link("up") == testBase+descriptionKey, "up is the Source Description")
		c.describedBy(testBase + "resourcesync/set.html")
		c.noTimes()
		c.distinct()
	case resourcesync.CapabilityResourceList:
		c.list()
	case resourcesync.CapabilityChangeList:
		c.changes()
	default:
		t.Errorf("%s: capability %q", key, h.Capability)
	}
	kind := string(h.Capability)
	if h.Root == resourcesync.SitemapIndex {
		kind += " index"
	}
	return kind
}

type checker struct {
	t       *testing.T
	key     string
	h       resourcesync.Header
	entries []resourcesync.Entry
}

func (c checker) check(ok bool, rule string) {
	c.t.Helper()
	if !ok {
		c.t.Errorf("%s: broken rule: %s", c.key, rule)
	}
}

func (c checker) describedBy(page string) {
	c.check(c.h.Link("describedby") == page, "describedby leads to a page about it")
}

func (c checker) noTimes() {
	c.check(c.h.At.IsZero() && c.h.Completed.IsZero() && c.h.From.IsZero() && c.h.Until.IsZero(), "no times at the root")
}

func (c checker) up() {
	c.check(c.h.Link("up") == testBase+"resourcesync/capabilitylist.xml", "up is the Capability List")
}

func (c checker) distinct() {
	var seen []resourcesync.Capability
	for _, en := range c.entries {
		c.check(en.Capability != "" && !slices.Contains(seen, en.Capability), "one entry per capability")
		c.check(en.LastMod.IsZero(), "no lastmod")
		seen = append(seen, en.Capability)
	}
}

func (c checker) list() {
	c.up()
	c.check(!c.h.At.IsZero() && c.h.From.IsZero() && c.h.Until.IsZero(), "a snapshot has at, and neither from nor until")
	c.check(!c.h.Completed.Time().Before(c.h.At.Time()), "completed is not before at")
	isPart := c.h.Link("index") != ""
	c.check(!isPart || c.h.Root == resourcesync.URLSet, "only parts have an index")
	for _, en := range c.entries {
		if c.h.Root == resourcesync.SitemapIndex {
			c.check(!en.At.Time().Before(c.h.At.Time()), "at of a part is not before that of the index")
			continue
		}
		c.check(en.Change == "" && en.Datetime.IsZero() && !en.Digests.Strongest().IsZero() && en.Length.Known() && en.Type != "", "resources have hash, length and type, and no change")
	}
}

func (c checker) changes() {
	c.up()
	c.check(!c.h.From.IsZero() && c.h.At.IsZero() && c.h.Completed.IsZero(), "a Change List has from, and no times of a snapshot")
	last := c.h.From.Time()
	c.check(c.h.Link("index") == testBase+"resourcesync/changelist-index.xml" || c.h.Root == resourcesync.SitemapIndex, "a Change List links its index")
	for _, en := range c.entries {
		if c.h.Root == resourcesync.SitemapIndex {
			c.check(en.From.Time().Equal(last), "lists follow each other without a gap")
			last = en.Until.Time()
			continue
		}
		at := en.Datetime.Time()
		c.check(en.Change != "" && !en.Datetime.IsZero(), "entries have change and datetime")
		c.check(!at.Before(last), "entries are in the order of their datetimes")
		c.check(c.h.Until.IsZero() || at.Before(c.h.Until.Time()), "changes lie before until")
		c.check(en.Change != resourcesync.Deleted || en.LastMod.IsZero(), "deletions have no lastmod")
		last = at
	}
	c.check(c.h.Until.IsZero() || c.h.Until.Time().After(c.h.From.Time().Add(-time.Nanosecond)), "until is not before from")
}
