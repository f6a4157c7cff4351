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

// auditReport writes the verdicts of an audit while it runs. A nil auditReport writes
// nothing.
type auditReport struct {
	body *digested
	form reportForm

	mu  sync.Mutex // guards the fields below
	err error      // the first write error
}

// reportForm is a format of a report. A value is used for one report.
type reportForm interface {
	begin(w io.Writer, h reportHead) error
	row(w io.Writer, r reportRow) error
	// end writes the totals and everything else before the digest.
	end(w io.Writer, t reportTail) error
	// digest writes the last line, with the digest of all preceding bytes.
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
	Digest  string    `json:"digest"` // description of the digest at the end
}

// reportRow is one resource.
type reportRow struct {
	Set     string              `json:"set"`
	Verdict destination.Verdict `json:"verdict"`
	Again   bool                `json:"again,omitempty"`
	URI     string              `json:"uri"`
	Path    string              `json:"path,omitempty"`
	Message string              `json:"message,omitempty"`
}

// reportTail is the outcome of an audit.
type reportTail struct {
	Status   string           `json:"status"`
	Ended    time.Time        `json:"ended"`
	Sets     []reportSet      `json:"sets"`
	Totals   []reportTotal    `json:"-"`
	ByName   map[string]int64 `json:"totals"`
	ExitCode int              `json:"exit_code"`
}

// reportSet has the fields of a set in a report.
type reportSet struct {
	Set      string     `json:"set"`
	At       *time.Time `json:"at,omitempty"`       // time of the Source's documents
	Followed *time.Time `json:"followed,omitempty"` // time up to which the mirror follows the Source
	Partial  string     `json:"partial,omitempty"`
	Gap      string     `json:"gap,omitempty"`
}

// reportTotal is a named count.
type reportTotal struct {
	Name string
	N    int64
}

// newAuditReport begins a report on w.
func (a *app) newAuditReport(w io.Writer, form reportForm, source, dir string, date time.Time) *auditReport {
	r := &auditReport{body: newDigested(w), form: form}
	r.err = form.begin(r.body, reportHead{
		Title: "Audit of a mirror", Date: date.UTC().Truncate(time.Second), Source: source, Dir: dir, Flags: append([]string{}, a.given...),
		Program: "instep " + version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Digest: "SHA-256 of every byte of this file before the line on which the digest stands",
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

// event writes a verdict.
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

// end writes the outcome.
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

// close releases the resources of the report.
func (r *auditReport) close() error {
	if r == nil {
		return nil
	}
	return r.form.close()
}

func tailOf(audit *destination.Audit, s *summary, now time.Time) reportTail {
	t := reportTail{Status: s.Status, Ended: now.UTC().Truncate(time.Second), ByName: s.counts(), ExitCode: s.ExitCode}
	for _, set := range audit.Sets {
		told := reportSet{Set: set.Set, At: known(set.At), Followed: known(set.Followed), Gap: set.Gap}
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

// known returns a pointer to t; nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// digested is a buffered writer that computes the SHA-256 of everything written.
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
