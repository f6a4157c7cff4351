package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"instep/lint"
	"instep/lint/inputs"
)

const (
	maxFindings    = 5   // largest number of findings that are shown for each rule in a document
	maxFindingText = 400 // length in bytes to which a message is shortened
)

// textReport writes findings for people, sorted by document and rule, each with its line of the
// document. It keeps only the first few findings of each rule.
type textReport struct {
	messageReport
	in  *inputs.Input
	met map[string]*ruleFindings
}

type ruleFindings struct {
	id    string
	level lint.Level
	count int64
	first []lint.Finding
	also  []*ruleFindings // quirk rules with the same findings; only the advice of these rules is shown
}

func (r *textReport) Begin(in *inputs.Input) { r.in, r.met = in, map[string]*ruleFindings{} }

func (r *textReport) finding(f lint.Finding) {
	g := r.met[f.Rule]
	if g == nil {
		g = &ruleFindings{id: f.Rule, level: f.Level}
		r.met[f.Rule] = g
	}
	g.count++
	if len(g.first) < maxFindings {
		g.first = append(g.first, f)
	}
}

func (r *textReport) Document(d lint.Document) error {
	if r.out.isQuiet() {
		return nil
	}
	head := r.in.URI + ": " + describe(d)
	if len(r.met) == 0 {
		r.out.line("%s: OK", printable(head))
		return nil
	}
	groups := slices.SortedFunc(maps.Values(r.met), func(a, b *ruleFindings) int {
		return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.first[0].Line, b.first[0].Line), cmp.Compare(a.id, b.id))
	})
	groups = foldQuirks(groups)
	var all []lint.Finding
	for _, g := range groups {
		all = append(all, g.first...)
	}
	source := sourceLines(r.in, all)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", printable(head))
	for _, g := range groups {
		g.write(&b, source)
	}
	r.out.line("%s", b.String())
	return nil
}

// foldQuirks merges the findings of a quirk rule into those of another rule, if both rules have the
// same findings. The findings of the other rule then also show the advice about the quirk.
func foldQuirks(groups []*ruleFindings) []*ruleFindings {
	var told []*ruleFindings
	for _, g := range groups {
		same := slices.IndexFunc(groups, func(other *ruleFindings) bool { return g.isQuirk() && !other.isQuirk() && other.sameAs(g) })
		if same < 0 {
			told = append(told, g)
			continue
		}
		groups[same].also = append(groups[same].also, g)
	}
	return told
}

func (g *ruleFindings) isQuirk() bool {
	rule, _ := lint.Lookup(g.id)
	return rule.Family == "quirk"
}

// sameAs reports whether the findings of two rules are the same. It compares their numbers, and the
// positions and messages of the first few, because only these are kept.
func (g *ruleFindings) sameAs(other *ruleFindings) bool {
	return g.count == other.count && slices.EqualFunc(g.first, other.first, func(a, b lint.Finding) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Message == b.Message
	})
}

func describe(d lint.Document) string {
	kind := d.Kind
	switch {
	case hasNoEntries(kind):
		return plainKinds[kind]
	case kind == "" && d.Profile == lint.ProfileORE:
		return "leads to Resource Maps"
	case kind == "" && !d.Complete:
		return "not read completely"
	case kind == "" && d.Capability == "":
		kind = "no capability"
	case kind == "":
		kind = "unknown capability"
	}
	text := kind + ", " + english.Plural(d.Entries, "entry", "entries")
	switch {
	case d.Head:
		text += " at its beginning; the rest of the document and the listed resources were not checked"
	case !d.Complete:
		text += ", not read completely"
	case d.Requested < d.Existing:
		text += fmt.Sprintf(", %d of them requested (--all: every one)", d.Requested)
	}
	return text
}

func (g *ruleFindings) write(b *strings.Builder, source map[place]excerpt) {
	rule, _ := lint.Lookup(g.id) // always found, since each finding is about a rule of the catalogue
	fmt.Fprintf(b, "\n  %s %s", g.level, g.id)
	if rule.Section != "" {
		fmt.Fprintf(b, " (%s)", rule.Section)
	}
	b.WriteByte('\n')
	for _, f := range g.first {
		writeFinding(b, f, source[place{f.Line, f.Column}])
	}
	if more := g.count - int64(len(g.first)); more > 0 {
		fmt.Fprintf(b, "    and %s more\n", humanize.Comma(more))
	}
	if rule.Fix != "" {
		fmt.Fprintf(b, "    fix: %s\n", rule.Fix)
	}
	for _, quirk := range g.also {
		rule, _ := lint.Lookup(quirk.id)
		fmt.Fprintf(b, "    also %s %s: %s\n", quirk.level, quirk.id, rule.Fix)
	}
}

func writeFinding(b *strings.Builder, f lint.Finding, e excerpt) {
	at := ""
	switch {
	case f.Line > 0 && f.Column > 0:
		at = fmt.Sprintf("%d:%d ", f.Line, f.Column)
	case f.Line > 0:
		at = fmt.Sprintf("line %d: ", f.Line)
	}
	fmt.Fprintf(b, "    %s%s\n", at, printable(shorten(f.Message, maxFindingText)))
	switch {
	case e.text != "":
		fmt.Fprintf(b, "    %6d | %s\n", f.Line, e.text)
		if e.caret >= 0 {
			fmt.Fprintf(b, "    %6s | %s^\n", "", strings.Repeat(" ", e.caret))
		}
	case f.Entry != "":
		fmt.Fprintf(b, "           of %s\n", printable(shorten(f.Entry, maxFindingText)))
	}
}

// shorten truncates a text that is longer than the limit in bytes, and adds an ellipsis.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
