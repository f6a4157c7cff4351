package main

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"instep/destination"
	"instep/internal/spool"
	"instep/internal/webpage"
)

// htmlForm writes an HTML page that begins with the verdict. The page needs no other file and no
// script.
type htmlForm struct {
	head  reportHead
	rows  *spool.File // table rows; they are spooled, because the totals before the table are known only at the end
	count int64
}

func (f *htmlForm) begin(_ io.Writer, h reportHead) error {
	f.head, f.rows = h, spool.NewFile("", 0)
	return nil
}

func (f *htmlForm) row(_ io.Writer, r reportRow) error {
	if r.Verdict == destination.VerdictSame && !r.Again {
		return nil
	}
	f.count++
	return auditPage.ExecuteTemplate(escaping{f.rows}, "row", r)
}

type auditView struct {
	reportHead
	reportTail
	Rows int64
}

func (f *htmlForm) end(w io.Writer, t reportTail) error {
	page := auditView{f.head, t, f.count}
	if err := auditPage.ExecuteTemplate(escaping{w}, "begin", page); err != nil {
		return err
	}
	if _, err := io.Copy(w, f.rows.Reader()); err != nil {
		return err
	}
	return auditPage.ExecuteTemplate(escaping{w}, "end", page)
}

func (f *htmlForm) digest(w io.Writer, sum string) error {
	return auditPage.ExecuteTemplate(w, "digest", sum)
}

func (f *htmlForm) close() error {
	if f.rows == nil {
		return nil
	}
	return f.rows.Close()
}

//go:embed audit_report.html
var auditText string

var auditPage = webpage.New("audit", auditText, pageFuncs)

var pageFuncs = template.FuncMap{
	"mark":     func(v destination.Verdict) string { return verdictMarks[v] },
	"word":     func(status string) string { return words[status] },
	"shell":    func(words []string) string { return shellLine(words...) },
	"tone":     statusClass,
	"tint":     verdictClass,
	"sentence": func(v auditView) string { return auditSentence(v.reportTail) },
	"finding":  findingName,
	"meaning":  meaning,
}

func statusClass(status string) string {
	switch status {
	case "in-sync", "clean", "published", "plan":
		return "good"
	case "partial":
		return "warn"
	}
	return "bad"
}

func verdictClass(v destination.Verdict) string {
	switch v {
	case destination.VerdictSame:
		return "good"
	case destination.VerdictExtra, destination.VerdictUnverifiable, verdictKept:
		return "warn"
	}
	return "bad"
}

var meanings = map[string]string{
	string(destination.VerdictSame):         "the mirror holds exactly what the Source lists",
	string(destination.VerdictMissing):      "the Source lists the resource, but the mirror does not hold it; the next sync fetches it",
	string(destination.VerdictExtra):        "the mirror holds the resource, but the Source no longer lists it; the next sync removes it, unless its guard withholds the deletion",
	string(destination.VerdictDifferent):    "the mirror holds other bytes than the Source lists, or may hold other bytes after a failure or instep restore; the next sync fetches the resource again",
	string(destination.VerdictUnverifiable): "the Source lists neither size nor checksum to compare with, does not show which version is the last one, or has older documents than the mirror; or the resource changed during the audit",
	string(destination.VerdictError):        "the file in the mirror could not be read; the next sync fetches it again",
	"repaired":                              "the resource was missing, different or unreadable, and this audit fetched it again",
	string(verdictKept):                     "restore --keep holds the resource in an earlier state, whatever the Source has, until restore --release",
	"weak":                                  "counted as same, but proved only by MD5, SHA-1 or SHA-224, which protect against accidents but not against forgery",
	"unread":                                "counted as same without reading the file, because its size and time have not changed since it was stored (--quick)",
}

func meaning(name string) string {
	if text, ok := meanings[name]; ok {
		return text
	}
	return "not compared: " + name
}

func findingName(t reportTotal) string {
	if _, ok := meanings[t.Name]; ok {
		return t.Name
	}
	return "not compared"
}

func (t reportTail) BytesRead() int64 { return t.total("bytes read") }

func (t reportTail) total(name string) int64 {
	for _, n := range t.Totals {
		if n.Name == name {
			return n.N
		}
	}
	return 0
}

func auditSentence(t reportTail) string {
	var all int64 // number of resources of the Source that were compared
	for _, v := range destination.Verdicts {
		if v != destination.VerdictExtra {
			all += t.total(string(v))
		}
	}
	says := firstSentence(t, all)
	if n := t.total(string(destination.VerdictUnverifiable)); n > 0 {
		says += fmt.Sprintf(" %s could not be verified.", humanize.Comma(n))
	}
	if n := t.total(string(verdictKept)); n > 0 {
		says += fmt.Sprintf(" %s %s kept in an earlier state by restore --keep.", resources(n), isAre(n))
	}
	return says
}

func firstSentence(t reportTail, all int64) string {
	copyOf := "all " + resources(all)
	if all == 1 {
		copyOf = "the 1 resource"
	}
	switch wrong := wrongSentence(t, all); {
	case wrong != "":
		return "The mirror is not a true copy of the Source: " + wrong
	case t.Status == "not-in-sync":
		return "It could not be shown that the mirror is a true copy: documents of the Source could not be used."
	case t.Status == "partial":
		return fmt.Sprintf("No difference was found in %s, but part of the Source could not be compared.", resources(all))
	case all == 0:
		return "The mirror is a true copy of the Source, which lists no resources."
	case t.total(string(destination.VerdictUnverifiable)) > 0:
		return fmt.Sprintf("The mirror holds %s of the Source, and no difference was found.", copyOf)
	case t.total("unread") > 0:
		return fmt.Sprintf("The mirror is a complete copy of %s of the Source; for %s of them only size and time were compared.", copyOf, humanize.Comma(t.total("unread")))
	}
	return fmt.Sprintf("The mirror is a complete and exact copy of %s of the Source: every byte was read and compared.", copyOf)
}

func wrongSentence(t reportTail, all int64) string {
	var parts []string
	for _, w := range []struct {
		verdict destination.Verdict
		says    string
	}{
		{destination.VerdictMissing, "missing in the mirror"}, {destination.VerdictDifferent, "different"}, {destination.VerdictError, "unreadable"},
	} {
		if n := t.total(string(w.verdict)); n > 0 {
			parts = append(parts, humanize.Comma(n)+" "+isAre(n)+" "+w.says)
		}
	}
	extra := t.total(string(destination.VerdictExtra))
	gone := isAre(extra) + " in the mirror but no longer at the Source."
	switch {
	case len(parts) == 0 && extra == 0:
		return ""
	case len(parts) == 0:
		return resources(extra) + " " + gone
	}
	says := "of " + resources(all) + ", " + english.WordSeries(parts, "and") + "."
	if extra > 0 {
		says += " " + humanize.Comma(extra) + " more " + gone
	}
	return says
}

func resources(n int64) string { return counted(n, "resource") }

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
