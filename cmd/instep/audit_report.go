package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"instep/destination"
)

// auditReport writes the report of an audit while the audit runs. A nil auditReport writes
// nothing.
type auditReport struct {
	body *digested
	form reportForm

	mu  sync.Mutex // guards the fields below
	err error      // the first error of a write
}

// reportForm writes the parts of a report in one format. Each report needs a new reportForm.
type reportForm interface {
	begin(w io.Writer, h reportHead) error
	row(w io.Writer, r reportRow) error
	// end writes the outcome of the audit.
	end(w io.Writer, t reportTail) error
	// digest writes the last line of the report, which contains the digest of all bytes before
	// that line.
	digest(w io.Writer, sum string) error
	close() error
}

// reportHead has the fields at the beginning of a report.
type reportHead struct {
	Title   string    `json:"title"`
	Date    time.Time `json:"date"`
	Source  string    `json:"source"`
	Dir     string    `json:"dir"`
	Flags   []string  `json:"flags"`
	Program string    `json:"program"`
	Go      string    `json:"go"`
	System  string    `json:"system"`
	Digest  string    `json:"digest"` // a text that says which bytes the digest in the last line of the report covers
}

// reportRow is the verdict on one resource in a report.
type reportRow struct {
	Set     string              `json:"set"`
	Verdict destination.Verdict `json:"verdict"`
	Again   bool                `json:"again,omitempty"`
	URI     string              `json:"uri"`
	Path    string              `json:"path,omitempty"`
	Message string              `json:"message,omitempty"`
}

// reportTail is the outcome of an audit, at the end of its report.
type reportTail struct {
	Status   string           `json:"status"`
	Ended    time.Time        `json:"ended"`
	Sets     []reportSet      `json:"sets"`
	Totals   []reportTotal    `json:"-"`
	ByName   map[string]int64 `json:"totals"`
	ExitCode int              `json:"exit_code"`
}

// reportSet describes a set in a report.
type reportSet struct {
	Set      string    `json:"set"`
	At       time.Time `json:"at,omitzero"`       // the time of the Source's documents that were compared
	Followed time.Time `json:"followed,omitzero"` // the time up to which the mirror has applied the changes of the Source
	Partial  string    `json:"partial,omitempty"`
	Gap      string    `json:"gap,omitempty"`
}

// reportTotal is a count with its name in a report.
type reportTotal struct {
	Name string
	N    int64
}

// newAuditReport returns a report that is written to w, and writes its beginning.
func (a *app) newAuditReport(w io.Writer, form reportForm, source, dir string, date time.Time) *auditReport {
	r := &auditReport{body: newDigested(w), form: form}
	r.err = form.begin(r.body, reportHead{
		Title: "Audit of a mirror", Date: date.UTC().Truncate(time.Second), Source: source, Dir: dir, Flags: append([]string{}, a.given...),
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

// event writes a verdict on a resource to the report. It ignores other events.
func (r *auditReport) event(e destination.Event) {
	if r == nil || e.Kind != destination.EventVerdict {
		return
	}
	row := reportRow{Set: e.Set, Verdict: e.Verdict, Again: e.Again, URI: e.Action.Want.URI, Path: e.Path}
	if e.Err != nil {
		row.Message = e.Err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.form.row(r.body, row)
	}
}

// end writes the outcome of the audit and the digest of the report.
func (r *auditReport) end(audit *destination.Audit, s *summary, now time.Time) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if err := r.form.end(r.body, tailOf(audit, s, now)); err != nil {
		return err
	}
	if err := r.form.digest(r.body, r.body.sum()); err != nil {
		return err
	}
	return r.body.w.Flush()
}

// close releases the temporary files of the report.
func (r *auditReport) close() error {
	if r == nil {
		return nil
	}
	return r.form.close()
}

func tailOf(audit *destination.Audit, s *summary, now time.Time) reportTail {
	t := reportTail{Status: s.Status, Ended: now.UTC().Truncate(time.Second), ByName: s.counts(), ExitCode: s.ExitCode}
	for _, set := range audit.Sets {
		told := reportSet{Set: set.Set, At: set.At.UTC(), Followed: set.Followed.UTC(), Gap: set.Gap}
		if set.Partial != nil {
			told.Partial = set.Partial.Error()
		}
		t.Sets = append(t.Sets, told)
	}
	totals := totalsOf(audit)
	for _, v := range destination.Verdicts {
		t.Totals = append(t.Totals, reportTotal{string(v), totals.verdicts[v]})
	}
	t.Totals = append(t.Totals, reportTotal{"repaired", totals.repaired}, reportTotal{"weak", totals.weak},
		reportTotal{"unread", totals.unread}, reportTotal{"bytes read", totals.bytes})
	for skip, n := range sorted(totals.skipped) {
		t.Totals = append(t.Totals, reportTotal{skip, n})
	}
	return t
}

// digested is a buffered writer that computes the SHA-256 of all bytes that are written.
type digested struct {
	w *bufio.Writer
	h hash.Hash
}

func newDigested(w io.Writer) *digested { return &digested{bufio.NewWriter(w), sha256.New()} }

func (d *digested) Write(p []byte) (int, error) {
	d.h.Write(p)
	return d.w.Write(p)
}

func (d *digested) sum() string { return hex.EncodeToString(d.h.Sum(nil)) }
