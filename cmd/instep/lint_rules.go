package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"instep/lint"
)

type ruleRecord struct {
	recordHead
	Rule      string     `json:"rule"`
	Family    string     `json:"family"`
	Level     lint.Level `json:"level"`
	Kinds     []string   `json:"kinds"`
	Edition   string     `json:"edition"`
	Profiles  []string   `json:"profiles"`
	Section   string     `json:"section"`
	Message   string     `json:"message"`
	Hint      string     `json:"hint"`
	Checkable string     `json:"checkable"`
	Derived   bool       `json:"derived,omitempty"`
	Conflicts []string   `json:"conflicts,omitempty"`
	Wins      string     `json:"wins,omitempty"`
}

func (o *output) rule(r lint.Rule) {
	o.writeAlways(&ruleRecord{
		Rule: r.ID, Family: r.Family, Level: r.Level, Kinds: r.Kinds,
		Edition: r.Version, Profiles: profilesOf(r), Section: r.Section, Message: r.Text, Hint: r.Fix,
		Checkable: r.Checkable, Derived: r.Derived, Conflicts: r.Conflicts, Wins: r.Wins,
	})
}

func profilesOf(r lint.Rule) []string {
	names := []string{}
	for _, p := range []lint.Profile{lint.Profile11, lint.Profile10, lint.ProfileArchives, lint.ProfileMid2013, lint.ProfileDLib, lint.ProfileORE} {
		if r.In(p) {
			names = append(names, string(p))
		}
	}
	return names
}

func (a *app) listRules(profile lint.Profile) error {
	var rules []lint.Rule
	for _, r := range lint.Rules() {
		if profile == "" || r.In(profile) {
			rules = append(rules, r)
		}
	}
	switch {
	case a.out.isQuiet():
	case a.out.json:
		for _, r := range rules {
			a.out.rule(r)
		}
	default:
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "RULE\tLEVEL\tNEEDS\tEDITION\tDEMANDS")
		_, onTerminal := terminal(a.stdout)
		for _, r := range rules {
			demand := r.Text
			if onTerminal {
				demand = shorten(demand, 100)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Level, r.Checkable, r.Version, demand)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	a.out.end(summary{Status: "clean", Rules: num(int64(len(rules)))}, fmt.Sprintf("%d rules; instep lint --explain RULE explains a rule", len(rules)))
	return nil
}

func (a *app) explainRule(id string) error {
	r, err := lookUp(id)
	if err != nil {
		return usagef("--explain: %v", err)
	}
	if a.out.json {
		a.out.rule(r)
		a.out.end(summary{Status: "clean", Rules: num(1)}, "")
		return nil
	}
	fmt.Fprint(a.stdout, explanation(r))
	return nil
}

func explanation(r lint.Rule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n  %s\n\n", r.ID, r.Text)
	fmt.Fprintf(&b, "  how to follow it   %s\n", r.Fix)
	level := r.Level.String()
	if r.Derived {
		level += "; the standard only implies this rule"
		if r.Level < lint.Error {
			level += ": --derived checks it"
		}
	}
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-17s  %s\n", name, value)
		}
	}
	row("level", level)
	row("section", r.Section)
	row("documents", strings.Join(r.Kinds, ", "))
	row("profiles", strings.Join(profilesOf(r), ", "))
	row("needs", needs[r.Checkable])
	if len(r.Conflicts) > 0 {
		wins := ""
		if r.Wins != "" {
			wins = fmt.Sprintf(" (the rule %s is followed unless a profile says otherwise)", r.Wins)
		}
		row("contradicts", strings.Join(r.Conflicts, ", ")+wins)
	}
	good, bad := lint.Example(r.ID)
	for _, e := range []struct{ name, text string }{{"Right:", good}, {"Wrong:", bad}} {
		if e.text != "" {
			fmt.Fprintf(&b, "\n%s\n\n    %s\n", e.name, strings.ReplaceAll(splitLongLines(strings.TrimSpace(e.text)), "\n", "\n    "))
		}
	}
	return b.String()
}

// maxExample is the length in bytes above which a line of an example is split.
const maxExample = 100

func splitLongLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if len(line) > maxExample {
			line = strings.ReplaceAll(line, "><", ">\n<")
			line = strings.ReplaceAll(line, " xmlns", "\n    xmlns")
		}
		b.WriteString(line)
	}
	return b.String()
}

var needs = map[string]string{
	"static":    "one document",
	"live":      "requests to the Source",
	"crosslink": "several documents of a Source; not checked yet",
	"behaviour": "knowledge of the Source's behaviour, which its documents do not show; not checked",
}
