package lint

import (
	"strconv"
	"strings"

	"instep/resourcesync"
)

// quirkRule returns the rule about a known deviation, or nil if there is none.
func quirkRule(q resourcesync.Quirk) *Rule { return book().byQuirk[q] }

// quirkNumber returns the number of the known deviation that a rule is about, or 0 if the
// rule is about none.
func quirkNumber(rule *Rule) int {
	if rule.Family != "quirk" {
		return 0
	}
	n, _ := strconv.Atoi(rule.ID[len("quirk-") : len("quirk-")+2])
	return n
}

// quirk checks for known deviations that the Decoder does not note, since they show only in
// several entries or with the kind of the document.
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

// quirkNewestFirst detects changes in reverse order, in which more entries are earlier than
// the previous one than later. The proposal of 2013 uses that order, so its documents are
// not checked.
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
				r.atRoot(rule, "the changes are listed newest first: in %d of %d steps the next one is earlier", back, back+forward)
			}
		},
	}
}

// quirkDeletionWithBytes detects deletions that still describe the deleted bytes.
func quirkDeletionWithBytes(r *run, rule *Rule, e *entry) {
	if e.Change == resourcesync.Deleted && (len(e.Digests) > 0 || e.Length.Known()) {
		r.atEntry(rule, e, "the deletion has hash or length of what is gone")
	}
}

// quirkResourceRepeated detects resources with two entries, of which readers use the last.
func quirkResourceRepeated(r *run, rule *Rule) steps {
	return repeated(func(e *entry) string { return e.Loc }, func(e *entry, first int) {
		r.atEntry(rule, e, "the resource is in line %d as well", first)
	})
}

// quirkFileURI detects URIs of files on the Source's own machine.
func quirkFileURI(r *run, rule *Rule, e *entry) {
	if len(e.Loc) > 5 && strings.EqualFold(e.Loc[:5], "file:") {
		r.atEntry(rule, e, "loc %q is a file of the Source's own machine", e.Loc)
	}
}
