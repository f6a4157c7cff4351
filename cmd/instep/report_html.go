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

type runView struct {
	*runs.Record
	Line   string // the command line
	Status string
	Tone   string // CSS class: good, warn or bad
	Counts string
	Groups []runs.Group
	Sets   []runs.Row
	Notes  []runs.Row
}

func viewOf(rec *runs.Record) runView {
	v := runView{Record: rec, Line: shellLine(commandOf(rec, rec.Options...)...), Status: "UNFINISHED", Tone: "warn"}
	if rec.End != nil {
		v.Status, v.Tone, v.Counts = words[rec.End.Status], statusClass(rec.End.Status), countsForPeople(rec.End.Counts)+countReplaced(rec)
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

// writeRunsPage writes a page with a list of runs, and with the details of some of them. If the
// list is empty, the page is about one run: details[0].
func writeRunsPage(w io.Writer, dir string, kept []statusRecord, list []runs.Record, details []*runs.Record, now time.Time) error {
	page := struct {
		Dir, Program  string
		Kept          []statusRecord // settings
		Now           time.Time
		Runs, Details []runView
		Last          *runView // the newest run; nil if there are no runs
		Full          bool     // whether the page shows all failures and notes of the runs
	}{Dir: dir, Program: "instep " + version, Kept: kept, Now: now, Full: len(list) == 0}
	for i := range list {
		page.Runs = append(page.Runs, viewOf(&list[i]))
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

// maxShown is the largest number of notes of a run, and of failures with the same cause, that a
// page about several runs shows.
const maxShown = 20

// countsForPeople formats the non-zero counts of a run, the most important first.
func countsForPeople(counts map[string]int64) string {
	var parts []string
	for _, name := range []string{
		"same", "created", "updated", "deleted", "missing", "extra", "different", "unverifiable", "errors", "failed", "withheld", "gaps",
		"weak", "unverified", "unread", "repaired", "kept",
	} {
		if n := counts[name]; n != 0 {
			parts = append(parts, humanize.Comma(n)+" "+name)
		}
	}
	if n := counts["bytes"]; n != 0 {
		parts = append(parts, humanSize(n))
	}
	if n := counts["requests"]; n != 0 {
		parts = append(parts, counted(n, "request"))
	}
	if len(parts) == 0 {
		return "nothing was done"
	}
	return strings.Join(parts, ", ")
}

// Says returns a clause about how the run ended, with a full stop.
func (v *runView) Says() string {
	switch {
	case v.End == nil:
		return "the run has not ended yet, or was killed."
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
