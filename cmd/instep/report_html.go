package main

import (
	_ "embed" // the page
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"instep/internal/runs"
	"instep/internal/webpage"
)

// runView is the data of a run for the page.
type runView struct {
	*runs.Record
	Line   string // its command
	Status string
	Tone   string // good, warn or bad
	Counts string
	Groups []runs.Group
	Sets   []runs.Row
	Notes  []runs.Row
}

func viewOf(rec *runs.Record) runView {
	v := runView{Record: rec, Line: shellLine(commandOf(rec, rec.Options...)...), Status: "UNFINISHED", Tone: "warn"}
	if rec.End != nil {
		v.Status, v.Tone, v.Counts = words[rec.End.Status], tone(rec.End.Status), countsForPeople(rec.End.Counts)
	}
	for _, r := range rec.Rows {
		switch r.Kind {
		case runs.Set:
			v.Sets = append(v.Sets, r)
		case runs.Note:
			v.Notes = append(v.Notes, r)
		}
	}
	v.Groups = rec.Groups("")
	return v
}

// writeRunsPage writes a page about runs: a table of all, and details of some.
func writeRunsPage(w io.Writer, dir string, kept []statusRecord, all []runs.Record, details []*runs.Record, now time.Time) error {
	page := struct {
		Dir, Program  string
		Kept          []statusRecord // settings
		Now           time.Time
		Runs, Details []runView
		Last          *runView // nil if there is none
		Full          bool     // show everything
	}{Dir: dir, Program: "instep " + version, Kept: kept, Now: now, Full: len(all) == 0}
	for i := range all {
		page.Runs = append(page.Runs, viewOf(&all[i]))
	}
	for _, rec := range details {
		v := viewOf(rec)
		if !page.Full {
			v.shorten()
		}
		page.Details = append(page.Details, v)
	}
	switch {
	case len(page.Runs) > 0:
		page.Last = &page.Runs[0]
	case len(page.Details) > 0:
		page.Last = &page.Details[0]
	}
	return runsPage.ExecuteTemplate(escaping{w}, "page", page)
}

// maxShown is the largest number of failures per cause, and of notes, that a page with
// several runs shows.
const maxShown = 20

// countsForPeople returns the non-zero counts of a run, in a natural order.
func countsForPeople(counts map[string]int64) string {
	var parts []string
	for _, name := range []string{
		"same", "created", "updated", "deleted", "missing", "extra", "different", "unverifiable", "errors", "failed", "withheld", "gaps",
		"weak", "unverified", "unread", "repaired",
	} {
		if n := counts[name]; n != 0 {
			parts = append(parts, humanize.Comma(n)+" "+name)
		}
	}
	if n := counts["bytes"]; n != 0 {
		parts = append(parts, webpage.Size(n))
	}
	switch n := counts["requests"]; {
	case n == 1:
		parts = append(parts, "1 request")
	case n > 1:
		parts = append(parts, humanize.Comma(n)+" requests")
	case len(parts) == 0:
		return "nothing was done"
	}
	return strings.Join(parts, ", ")
}

// Says returns a sentence about how a run ended.
func (v *runView) Says() string {
	switch {
	case v.End == nil:
		return "it has not ended yet, or it was killed."
	case v.End.Error != "":
		return v.End.Error + "."
	}
	return v.Counts + "."
}

func (v *runView) shorten() {
	for i := range v.Groups {
		g := &v.Groups[i]
		g.Rows = g.Rows[:min(len(g.Rows), maxShown)]
	}
	v.Notes = v.Notes[:min(len(v.Notes), maxShown)]
}

//go:embed report.html
var runsText string

var runsPage = webpage.New("runs", runsText, pageFuncs)
