package lint

import (
	"hash/maphash"
	"time"

	"instep/resourcesync"
)

// datetimeWithin checks that the time of a change is within the interval that the root
// states with its attributes "from" and "until" (1.1 §7), including both ends.
func datetimeWithin(r *run, rule *Rule, e *entry) {
	switch d := e.Datetime; {
	case d.Before(r.header.From):
		r.atEntry(rule, e, "datetime %s is before the root's \"from\", %s", d, r.header.From)
	case d.After(r.header.Until):
		r.atEntry(rule, e, "datetime %s is after the root's \"until\", %s", d, r.header.Until)
	}
}

// datetimeEverywhere checks that changes have a datetime, so that a Destination can
// continue after the last change it applied (1.1 §12.1). It makes one finding for all
// entries.
func datetimeEverywhere(r *run, rule *Rule) steps {
	return countEntries(r, rule, " without datetime", func(e *entry) bool {
		return e.Datetime.IsZero() && !e.hasNote("datetime-w3cdtf")
	})
}

// kindsWithTimes has the kinds of document whose entries may have the attributes "at" and
// "completed", or "from" and "until" (1.1 App. A Table 4, Archives §3 to §6). The keys are
// the rules about these attributes.
var kindsWithTimes = map[string]map[string]bool{
	"entry-at-completed-scope": {
		"resourcelist-index": true, "resourcedump": true, "resourcedump-index": true,
		"resourcelist-archive": true, "resourcelist-archive-index": true,
		"resourcedump-archive": true, "resourcedump-archive-index": true,
	},
	"entry-from-until-scope": {
		"changelist-index": true, "changedump": true, "changedump-index": true,
		"changelist-archive": true, "changelist-archive-index": true,
		"changedump-archive": true, "changedump-archive-index": true,
	},
}

func entryTimeScope(r *run, rule *Rule) steps {
	if r.readKind == "" || kindsWithTimes[rule.ID][r.readKind] {
		return steps{}
	}
	first := 0 // index of the first attribute to check, in the result of timesOf
	if rule.ID == "entry-from-until-scope" {
		first = 2
	}
	return steps{entry: func(e *entry) {
		times := timesOf(&e.Metadata)
		for _, t := range times[first : first+2] {
			if !t.value.IsZero() || e.hasNote(t.name+"-w3cdtf") {
				r.atEntry(rule, e, "the entry has %s, which entries of this kind of document do not have", t)
			}
		}
	}}
}

// span is a period that an rs:md states, with the names of the attributes that state its
// begin and its end.
type span struct {
	beginName, endName string
	begin, end         resourcesync.Datetime
}

func spanOf(m *resourcesync.Metadata, snapshot bool) span {
	if snapshot {
		return span{"at", "completed", m.At, m.Completed}
	}
	return span{"from", "until", m.From, m.Until}
}

func needsBegin(r *run, rule *Rule, e *entry) {
	s := spanOf(&e.Metadata, rule.ID == "completed-needs-at")
	if !s.end.IsZero() && s.begin.IsZero() && !e.hasNote(s.beginName+"-w3cdtf") {
		r.atEntry(rule, e, "the entry has %s=%q and no %s", s.endName, s.end, s.beginName)
	}
}

func endBeforeBegin(r *run, rule *Rule) steps {
	snapshot := rule.ID == "completed-not-before-at"
	const message = "%s %s is before %s, %s"
	return steps{
		entry: func(e *entry) {
			if s := spanOf(&e.Metadata, snapshot); s.end.Before(s.begin) {
				r.atEntry(rule, e, message, s.endName, s.end, s.beginName, s.begin)
			}
		},
		end: func() {
			if s := spanOf(&r.header.Metadata, snapshot); s.end.Before(s.begin) {
				r.atRoot(rule, message, s.endName, s.end, s.beginName, s.begin)
			}
		},
	}
}

// entryWithinRoot checks that the period of an entry, which describes a part, is within
// the period of the root, which describes the whole (1.1 §10.2, §11.1, §12.2, §13.1).
func entryWithinRoot(r *run, rule *Rule, e *entry) {
	snapshot := rule.ID == "entry-at-within-root-snapshot"
	part, whole := spanOf(&e.Metadata, snapshot), spanOf(&r.header.Metadata, snapshot)
	if part.begin.Before(whole.begin) {
		r.atEntry(rule, e, "%s %s of the entry is before that of the root, %s", part.beginName, part.begin, whole.begin)
	}
	if part.end.After(whole.end) {
		r.atEntry(rule, e, "%s %s of the entry is after that of the root, %s", part.endName, part.end, whole.end)
	}
}

// forwardOrder checks that entries are sorted by time, oldest first (1.1 §12.1, §12.2,
// §13.1, §13.2). It skips entries without a time, and dates without seconds that may be
// before or after the previous time. After a finding, the next entry is compared with the
// entry of the finding.
func forwardOrder(r *run, rule *Rule) steps {
	name, timeOf := "from", func(e *entry) resourcesync.Datetime {
		if e.From.IsZero() {
			return e.Until
		}
		return e.From
	}
	switch rule.ID {
	case "changelist-order-datetime", "changedump-manifest-order-datetime":
		name, timeOf = "datetime", func(e *entry) resourcesync.Datetime { return e.Datetime }
	case "changelist-order-lastmod", "changedump-manifest-order-lastmod":
		name, timeOf = "lastmod", func(e *entry) resourcesync.Datetime { return e.LastMod }
	}
	var last resourcesync.Datetime
	var line int
	return steps{entry: func(e *entry) {
		now := timeOf(e)
		if now.IsZero() {
			return
		}
		back := now.Before(last)
		if back {
			r.atEntry(rule, e, "%s %s is before that of the entry in line %d, %s", name, now, line, last)
		}
		if back || !now.Time().Before(last.Time()) {
			last, line = now, e.Line
		}
	}}
}

// keys makes hashes of texts, each of 16 bytes. The seeds are random, so that nobody can
// write a document in which two texts have the same hash.
type keys struct{ a, b maphash.Seed }

type key [2]uint64

func newKeys() keys { return keys{maphash.MakeSeed(), maphash.MakeSeed()} }

func (k keys) hash(s string) key { return key{maphash.String(k.a, s), maphash.String(k.b, s)} }

// changeUnique checks that no two changes of a resource have the same time (1.0 §12.1).
// It does not report equal dates without seconds.
func changeUnique(r *run, rule *Rule) steps {
	return findRepeated(func(e *entry) string {
		if !e.LastMod.Complete() {
			return ""
		}
		return e.Loc + " " + e.LastMod.Time().Format(time.RFC3339Nano)
	}, func(e *entry, first int) {
		r.atEntry(rule, e, "a second change of this resource at %s; the first is in line %d", e.LastMod, first)
	})
}
