package main

import (
	"instep/internal/spool"
	"instep/lint"
	"instep/lint/inputs"
)

// lintReporter reports findings. For each document begin, finding and document are
// called, in this order.
type lintReporter interface {
	begin(in *inputs.Input)
	finding(f lint.Finding)
	document(d lint.Document) error
	failed(uri string, err error, hint string)
	unchecked(uri string, err error) // something that a document links
	end(s summary, line string) error
	close() // called if the run stopped early
}

// lintReport returns the reporter for a format.
func (a *app) lintReport(format string) lintReporter {
	switch {
	case a.out.json:
		return &jsonReport{out: a.out}
	case format == "sarif":
		return &sarifReport{out: a.out, log: lint.NewSARIF(escaping{a.stdout}, version)}
	}
	return &textReport{out: a.out}
}

// jsonReport writes JSON records: for each document its own record, then those of its
// findings, which are spooled until the document has been read.
type jsonReport struct {
	out   *output
	spool *spool.Log[lint.Finding]
	err   error // error of the spool
}

func (r *jsonReport) begin(*inputs.Input) {
	r.close()
	r.spool, r.err = spool.NewLog[lint.Finding](""), nil
}

func (r *jsonReport) finding(f lint.Finding) {
	if r.err == nil {
		r.err = r.spool.Append(f)
	}
}

func (r *jsonReport) document(d lint.Document) error {
	if r.err != nil {
		return r.err
	}
	r.out.record(documentOf(d))
	for f, err := range r.spool.All() {
		if err != nil {
			return err
		}
		r.out.record(&findingRecord{
			Rule: f.Rule, Level: f.Level.String(), URI: f.URI, Line: f.Line, Column: f.Column, Entry: f.Entry, Message: f.Message,
		})
	}
	return nil
}

func documentOf(d lint.Document) *documentRecord {
	r := &documentRecord{
		URI: d.URI, Kind: d.Kind, Capability: string(d.Capability), Profile: string(d.Profile),
		At: moment(d.At), Completed: moment(d.Completed), From: moment(d.From), Until: moment(d.Until),
		Up: d.Up, Index: d.Index,
	}
	if d.Complete && !isPlain(d.Kind) && d.Profile != lint.ProfileORE {
		r.Entries, r.Root = num(int64(d.Entries)), rootName(d.Root)
	}
	return r
}

// isPlain reports whether documents of a kind have no entries.
func isPlain(kind string) bool { return plainKinds[kind] != "" }

var plainKinds = map[string]string{"html": "HTML page", "robots": "robots.txt", "http": "Link header", "site": "site"}

func (r *jsonReport) failed(uri string, err error, hint string) {
	r.out.failed(uri, err, hint)
}

func (r *jsonReport) unchecked(uri string, err error) { unchecked(r.out, uri, err) }

// unchecked reports a linked document that was not checked.
func unchecked(out *output, uri string, err error) {
	out.warn(warningRecord{URI: uri, Message: "not checked: " + err.Error()})
}

func (r *jsonReport) end(s summary, line string) error {
	r.out.end(s, line)
	return nil
}

func (r *jsonReport) close() {
	if r.spool != nil {
		_ = r.spool.Close() // ignore the error: the data is temporary
	}
}

// sarifReport writes a log of SARIF 2.1.0; messages for people go to standard error.
type sarifReport struct {
	out   *output
	log   *lint.SARIF
	ended bool
}

func (r *sarifReport) begin(*inputs.Input) {}

func (r *sarifReport) finding(f lint.Finding) { r.log.Finding(f) }

func (r *sarifReport) document(lint.Document) error { return nil }

func (r *sarifReport) failed(uri string, err error, hint string) {
	r.log.Failed(uri, err.Error())
	r.out.failed(uri, err, hint)
}

func (r *sarifReport) unchecked(uri string, err error) { unchecked(r.out, uri, err) }

func (r *sarifReport) end(s summary, line string) error {
	r.ended = true
	r.out.say("%s", line)
	return r.log.Close(*s.Checked > 0, s.ExitCode)
}

func (r *sarifReport) close() {
	if !r.ended {
		r.log.Failed("", "the run was stopped before its end")
		_ = r.log.Close(false, exitFailed) // ignore the error: the run has already failed
	}
}
