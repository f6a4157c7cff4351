package lint

import (
	"strconv"
	"strings"

	"instep/resourcesync"
)

// quirkRule returns nil if no rule is about the deviation.
func quirkRule(q resourcesync.Quirk) *Rule { return book().byQuirk[q] }

// quirkNumber returns 0 if the rule is not about a known deviation.
func quirkNumber(rule *Rule) int {
	if rule.Family != "quirk" {
		return 0
	}
	n, _ := strconv.Atoi(rule.ID[len("quirk-") : len("quirk-")+2])
	return n
}

// quirk checks for known deviations that the Decoder cannot report: they show only in
// several entries, or only if the kind of the document is known.
func quirk(r *run, rule *Rule) steps {
	return quirks[quirkNumber(rule)].begin(r, rule)
}

var quirks = map[int]check{
	19: {steps: oneEntryPerCapability},
	20: {entry: entryMetadata},
	34: {steps: quirkNewestFirst},
	37: {entry: quirkDeletionWithBytes},
	45: {steps: quirkResourceRepeated},
	57: {entry: changeRequired},
	58: {entry: quirkFileURI},
}

// quirkNewestFirst reports a document if the times of its changes decrease from one entry to
// the next more often than they increase. In documents of the proposal of 2013 this order
// is normal.
func quirkNewestFirst(r *run, rule *Rule) steps {
	if r.profile == ProfileDLib {
		return steps{}
	}
	var last resourcesync.Datetime
	var back, forward int
	return steps{
		entry: func(e *entry) {
			now := e.Datetime
			if now.IsZero() {
				now = e.LastMod
			}
			if now.Before(last) {
				back++
			} else if now.After(last) {
				forward++
			}
			if !now.IsZero() {
				last = now
			}
		},
		end: func() {
			if back > forward {
				r.atRoot(rule, "the changes are listed newest first: in %d of %d steps to the next entry the time goes back", back, back+forward)
			}
		},
	}
}

// quirkDeletionWithBytes reports deletions with a hash or length, which can only describe
// the deleted bytes.
func quirkDeletionWithBytes(r *run, rule *Rule, e *entry) {
	if e.Change == resourcesync.Deleted && (len(e.Digests) > 0 || e.Length.Known()) {
		r.atEntry(rule, e, "the deletion has the hash or length of the deleted bytes")
	}
}

// quirkResourceRepeated reports resources with two entries in one document. Readers use
// the last one.
func quirkResourceRepeated(r *run, rule *Rule) steps {
	return findRepeated(func(e *entry) string { return e.Loc }, func(e *entry, first int) {
		r.atEntry(rule, e, "the resource is also in line %d", first)
	})
}

// quirkFileURI reports URIs that name a file on the Source's own machine.
func quirkFileURI(r *run, rule *Rule, e *entry) {
	if len(e.Loc) > 5 && strings.EqualFold(e.Loc[:5], "file:") {
		r.atEntry(rule, e, "loc %q names a file on the Source's own machine", e.Loc)
	}
}
