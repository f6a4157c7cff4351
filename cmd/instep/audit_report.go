package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"instep/destination"
)

// A nil auditReport writes nothing.
type auditReport struct {
	body *digestWriter
	form reportForm
	out  *output // redacts the texts of the report

	mu  sync.Mutex // guards err, form and body
	err error      // first write error
}

// reportForm writes one audit report in one format. It keeps state, so each report needs a new
// reportForm.
type reportForm interface {
	begin(w io.Writer, h reportHead) error
	row(w io.Writer, r reportRow) error
	end(w io.Writer, t reportTail) error
	// digest writes the last line of the report, with the SHA-256 of all bytes before that line.
	digest(w io.Writer, sum string) error
	close() error
}

type reportHead struct {
	Title   string    `json:"title"`
	Date    time.Time `json:"date"`
	Source  string    `json:"source"`
	Dir     string    `json:"dir"`
	Path    string    `json:"path"` // absolute path of the mirror
	Host    string    `json:"host,omitempty"`
	Flags   []string  `json:"flags"`
	Program string    `json:"program"`
	Go      string    `json:"go"`
	System  string    `json:"system"`
	Digest  string    `json:"digest"` // text that explains which bytes the SHA-256 in the last line covers
}

type reportRow struct {
	Set     string              `json:"set"`
	Verdict destination.Verdict `json:"verdict"`
	Again   bool                `json:"again,omitempty"`
	URI     string              `json:"uri"`
	Path    string              `json:"path,omitempty"`
	Message string              `json:"message,omitempty"`
}

// verdictKept marks a row about a resource that restore --keep holds in an earlier state. It is no
// verdict of the audit: if the Source still has the resource, a second row has the verdict.
const verdictKept destination.Verdict = "kept"

type reportTail struct {
	Status   string           `json:"status"`
	Ended    time.Time        `json:"ended"`
	Sets     []reportSet      `json:"sets"`
	Totals   []reportTotal    `json:"-"`
	ByName   map[string]int64 `json:"totals"`
	ExitCode int              `json:"exit_code"`
}

type reportSet struct {
	Set      string    `json:"set"`
	At       time.Time `json:"at,omitzero"`       // datetime of the Resource List with which the set was compared
	Followed time.Time `json:"followed,omitzero"` // datetime up to which the mirror has applied the changes of the Source
	Partial  string    `json:"partial,omitempty"`
	Gap      string    `json:"gap,omitempty"`
}

type reportTotal struct {
	Name string
	N    int64
}

func (a *app) newAuditReport(w io.Writer, form reportForm, source, dir string, date time.Time) *auditReport {
	r := &auditReport{body: newDigestWriter(w), form: form, out: a.out}
	path, err := filepath.Abs(dir)
	if err != nil {
		path = dir
	}
	host, _ := os.Hostname() // the error is ignored, because a report without the name of the host is still useful
	r.err = form.begin(r.body, reportHead{
		Title: "Audit of a mirror", Date: date.UTC().Truncate(time.Second), Source: a.out.redact(source), Dir: dir, Path: path, Host: host, Flags: append([]string{}, a.given...),
		Program: "instep " + version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Digest: "SHA-256 of all bytes of this file before the line with the digest",
	})
	return r
}

func reportFormOf(name string) reportForm {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".html", ".htm":
		return &htmlForm{}
	case ".csv":
		return &csvForm{}
	case ".json":
		return &jsonForm{}
	}
	return nil
}

func (r *auditReport) event(e destination.Event) {
	if r == nil || e.Kind != destination.EventVerdict {
		return
	}
	row := reportRow{Set: e.Set, Verdict: e.Verdict, Again: e.Again, URI: r.out.redact(e.Action.Want.URI), Path: e.Path}
	if e.Err != nil {
		row.Message = r.out.redactMessage(e.Err.Error())
	}
	r.row(row)
}

func (r *auditReport) row(row reportRow) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.form.row(r.body, row)
	}
}

func (r *auditReport) end(audit *destination.Audit, s *summary, now time.Time) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if err := r.form.end(r.body, r.tailOf(audit, s, now)); err != nil {
		return err
	}
	if err := r.form.digest(r.body, r.body.sum()); err != nil {
		return err
	}
	return r.body.w.Flush()
}

func (r *auditReport) close() error {
	if r == nil {
		return nil
	}
	return r.form.close()
}

func (r *auditReport) tailOf(audit *destination.Audit, s *summary, now time.Time) reportTail {
	t := reportTail{Status: s.Status, Ended: now.UTC().Truncate(time.Second), ByName: s.counts(), ExitCode: s.ExitCode}
	for _, set := range audit.Sets {
		told := reportSet{Set: set.Set, At: set.At.UTC(), Followed: set.Followed.UTC(), Gap: set.Gap}
		if set.Partial != nil {
			told.Partial = r.out.redactMessage(set.Partial.Error())
		}
		t.Sets = append(t.Sets, told)
	}
	totals := totalsOf(audit)
	for _, v := range destination.Verdicts {
		t.Totals = append(t.Totals, reportTotal{string(v), totals.verdicts[v]})
	}
	t.Totals = append(t.Totals, reportTotal{"repaired", totals.repaired}, reportTotal{"weak", totals.weak},
		reportTotal{"unread", totals.unread}, reportTotal{"bytes read", totals.bytes},
		reportTotal{string(verdictKept), t.ByName[string(verdictKept)]})
	for skip, n := range sortedByName(totals.skipped) {
		t.Totals = append(t.Totals, reportTotal{skip, n})
	}
	return t
}

type digestWriter struct {
	w *bufio.Writer
	h hash.Hash
}

func newDigestWriter(w io.Writer) *digestWriter {
	return &digestWriter{bufio.NewWriter(w), sha256.New()}
}

func (d *digestWriter) Write(p []byte) (int, error) {
	d.h.Write(p)
	return d.w.Write(p)
}

func (d *digestWriter) sum() string { return hex.EncodeToString(d.h.Sum(nil)) }
