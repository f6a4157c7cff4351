package main

import (
	"instep/internal/spool"
	"instep/lint"
	"instep/lint/inputs"
)

// lintReporter writes the results of lint in one format. For each document, Begin is called
// before the findings, and Document after them.
type lintReporter interface {
	Begin(in *inputs.Input)
	finding(f lint.Finding)
	Document(d lint.Document) error
	failed(uri string, err error, hint string)
	end(s summary, line string) error
	close() // called once for each report, even if the run failed before end was called
}

func (a *app) newLintReporter(format string) lintReporter {
	base := messageReport{a.out}
	switch {
	case a.out.json:
		return &jsonReport{messageReport: base}
	case format == "sarif":
		return &sarifReport{messageReport: base, log: lint.NewSARIF(escaping{a.stdout}, version)}
	}
	return &textReport{messageReport: base}
}

type messageReport struct{ out *output }

func (r messageReport) failed(uri string, err error, hint string) { r.out.printError(uri, err, hint) }

func (r messageReport) end(s summary, line string) error {
	r.out.end(s, line)
	return nil
}

func (r messageReport) close() {}

// jsonReport spools the findings of a document, because the record of the document is written
// first.
type jsonReport struct {
	messageReport
	spool *spool.Log[lint.Finding]
	err   error // first error of writing to the spool
}

func (r *jsonReport) Begin(*inputs.Input) {
	r.close()
	r.spool, r.err = spool.NewLog[lint.Finding](""), nil
}

func (r *jsonReport) finding(f lint.Finding) {
	if r.err == nil {
		r.err = r.spool.Append(f)
	}
}

func (r *jsonReport) Document(d lint.Document) error {
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
		At: jsonTime(d.At), Completed: jsonTime(d.Completed), From: jsonTime(d.From), Until: jsonTime(d.Until),
		Up: d.Up, Index: d.Index,
	}
	if d.Complete && !hasNoEntries(d.Kind) && d.Profile != lint.ProfileORE {
		r.Entries, r.Root = num(int64(d.Entries)), rootName(d.Root)
		r.Requested = positive(int64(d.Requested))
	}
	return r
}

func hasNoEntries(kind string) bool { return plainKinds[kind] != "" }

var plainKinds = map[string]string{"html": "HTML page", "robots": "robots.txt", "http": "Link header", "site": "site"}

func (r *jsonReport) close() {
	if r.spool != nil {
		_ = r.spool.Close() // the error is ignored, since the data is temporary
	}
}

// sarifReport writes a log of SARIF 2.1.0 to standard output, and messages for people to
// standard error.
type sarifReport struct {
	messageReport
	log   *lint.SARIF
	ended bool
}

func (r *sarifReport) Begin(*inputs.Input) {}

func (r *sarifReport) finding(f lint.Finding) {
	f.URI, f.Entry, f.Message = r.out.redact(f.URI), r.out.redact(f.Entry), r.out.redact(f.Message)
	r.log.Finding(f)
}

func (r *sarifReport) Document(lint.Document) error { return nil }

func (r *sarifReport) failed(uri string, err error, hint string) {
	r.log.Failed(r.out.redact(uri), r.out.redactMessage(err.Error()))
	r.out.printError(uri, err, hint)
}

func (r *sarifReport) end(s summary, line string) error {
	r.ended = true
	r.out.say("%s", line)
	return r.log.Close(*s.Checked > 0, s.ExitCode)
}

func (r *sarifReport) close() {
	if !r.ended {
		r.log.Failed("", "the run was stopped before its end")
		_ = r.log.Close(false, exitFailed) // the error is ignored, since the run has already failed
	}
}
