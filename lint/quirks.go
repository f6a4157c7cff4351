package lint

import (
	"strconv"
	"strings"

	"instep/resourcesync"
)

// quirkRule returns the rule for a numbered habit of the Decoder; nil if there is none.
func quirkRule(q resourcesync.Quirk) *Rule { return book().byQuirk[q] }

// quirkNumber returns the number of the habit that a rule is about; 0 if it is about
// none.
func quirkNumber(rule *Rule) int {
	if rule.Family != "quirk" {
		return 0
	}
	n, _ := strconv.Atoi(rule.ID[len("quirk-") : len("quirk-")+2])
	return n
}

// quirk checks the habits that the Decoder does not note, since they need several
// entries or the kind of the document.
func quirk(r *run, rule *Rule) steps {
	switch quirkNumber(rule) {
	case 19:
		return oneEntryPerCapability(r, rule)
	case 20:
		return entryMetadata(r, rule)
	case 34:
		return quirkNewestFirst(r, rule)
	case 37:
		return quirkDeletionWithBytes(r, rule)
	case 45:
		return quirkResourceRepeated(r, rule)
	case 57:
		return changeRequired(r, rule)
	case 58:
		return quirkFileURI(r, rule)
	}
	return steps{}
}

// quirkNewestFirst detects changes in reverse order: more steps back in time than
// forward. The proposal of 2013 uses that order and states no rule.
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
func quirkDeletionWithBytes(r *run, rule *Rule) steps {
	return steps{entry: func(e *entry) {
		if e.Change == resourcesync.Deleted && (len(e.Digests) > 0 || e.Length.Known()) {
			r.atEntry(rule, e, "the deletion has hash or length of what is gone")
		}
	}}
}

// quirkResourceRepeated detects resources with two entries; readers use the last.
func quirkResourceRepeated(r *run, rule *Rule) steps {
	k, lines := newKeys(), make(map[key]int)
	return steps{entry: func(e *entry) {
		loc := k.of(e.Loc)
		if line, ok := lines[loc]; ok {
			r.atEntry(rule, e, "the resource is in line %d as well", line)
			return
		}
		lines[loc] = e.Line
	}}
}

// quirkFileURI detects URIs of files on the Source's own machine.
func quirkFileURI(r *run, rule *Rule) steps {
	return steps{entry: func(e *entry) {
		if len(e.Loc) > 5 && strings.EqualFold(e.Loc[:5], "file:") {
			r.atEntry(rule, e, "loc %q is a file of the Source's own machine", e.Loc)
		}
	}}
}
