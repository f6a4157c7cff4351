package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// schemaVersion is the version of docs/schema.json.
const schemaVersion = 1

type output struct {
	stdout, stderr               io.Writer
	json, quiet, silent, verbose bool
	secrets                      atomic.Pointer[redactor] // hides passwords and tokens wherever text is written; nil hides none

	mu      sync.Mutex  // guards the writers and the following fields, since several goroutines report
	bar     *statusLine // the status line at the bottom of the terminal; nil if there is none
	colour  struct{ stdout, stderr bool }
	warned  sentence     // the last warning or error that was printed
	said    []string     // the warnings that were printed last, at most maxSaid
	started bool         // whether a record has been written
	text    bytes.Buffer // buffer for the record that is being written; reused for the next record
	pending bytes.Buffer // records that are queued and not written yet
	delay   *time.Timer  // timer that writes the queued records; nil if none are queued
	last    summary      // summary with which the command ended
}

// Records are written in batches, because a system call for each record would take most of
// the time.
const (
	pendingBytes = 32 << 10              // the size in bytes at which a batch of records is written
	pendingTime  = 50 * time.Millisecond // the longest time that a record waits in a batch
)

// summary is the last record of a command.
type summary struct {
	recordHead
	Status       string           `json:"status"`
	Same         *int64           `json:"same,omitempty"`
	Created      *int64           `json:"created,omitempty"`
	Updated      *int64           `json:"updated,omitempty"`
	Deleted      *int64           `json:"deleted,omitempty"`
	Failed       *int64           `json:"failed,omitempty"`
	Withheld     *int64           `json:"withheld,omitempty"`
	Gaps         *int64           `json:"gaps,omitempty"`
	Adopted      *int64           `json:"adopted,omitempty"`
	Plan         string           `json:"plan,omitempty"`
	Missing      *int64           `json:"missing,omitempty"`
	Extra        *int64           `json:"extra,omitempty"`
	Different    *int64           `json:"different,omitempty"`
	Unverifiable *int64           `json:"unverifiable,omitempty"`
	Checked      *int64           `json:"checked,omitempty"`
	Errors       *int64           `json:"errors,omitempty"`
	Weak         *int64           `json:"weak,omitempty"`
	Unread       *int64           `json:"unread,omitempty"`
	Repaired     *int64           `json:"repaired,omitempty"`
	Warnings     *int64           `json:"warnings,omitempty"`
	Infos        *int64           `json:"infos,omitempty"`
	Rules        *int64           `json:"rules,omitempty"`
	Skipped      map[string]int64 `json:"skipped,omitempty"`
	Excluded     map[string]int64 `json:"excluded,omitempty"`
	Resources    *int64           `json:"resources,omitempty"`
	Documents    []string         `json:"documents,omitempty"`
	Retired      []string         `json:"retired,omitempty"`
	Packaged     *int64           `json:"packaged,omitempty"`
	Kept         *int64           `json:"kept,omitempty"`
	Patches      *patchCounts     `json:"patches,omitempty"`
	Bytes        *int64           `json:"bytes,omitempty"`
	Requests     *int64           `json:"requests,omitempty"`
	Seconds      *float64         `json:"seconds,omitempty"`
	ExitCode     int              `json:"exit_code"`
	Via          map[string]int64 `json:"via,omitempty"`
	Planned      *int64           `json:"planned_requests,omitempty"`
	Unverified   *int64           `json:"unverified,omitempty"`
	Maps         *int64           `json:"maps,omitempty"`
	Findings     *int64           `json:"findings,omitempty"`

	KeptResources *int64 `json:"kept_resources,omitempty"` // by restore --keep
}

type patchCounts struct {
	Made   *int64 `json:"made,omitempty"`   // published
	Used   *int64 `json:"used,omitempty"`   // the number of resources that a mirror made by applying patches
	Saved  *int64 `json:"saved,omitempty"`  // bytes
	Failed *int64 `json:"failed,omitempty"` // the number of resources that were fetched whole because a patch could not be used
	Wasted *int64 `json:"wasted,omitempty"` // bytes
}

func num(n int64) *int64 { return &n }

// positive returns nil for 0. A nil pointer omits the field of a JSON record.
func positive(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// optional returns nil for a negative number, which means that the number is unknown. A nil
// pointer omits the field of a JSON record.
func optional(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func seconds(d time.Duration) *float64 {
	s := d.Round(time.Millisecond).Seconds()
	return &s
}

func (o *output) write(v any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
	enc := json.NewEncoder(&o.text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // never happens, since records contain only strings, numbers and booleans
	}
	o.pending.Write(escapeSteering([]byte(o.redact(o.text.String()))))
	switch {
	case o.pending.Len() >= pendingBytes:
		o.writePending()
	case o.delay == nil:
		o.delay = time.AfterFunc(pendingTime, o.flush)
	}
}

func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writePending()
}

func (o *output) writePending() {
	if o.delay != nil {
		o.delay.Stop()
		o.delay = nil
	}
	if o.pending.Len() > 0 {
		_, _ = o.stdout.Write(o.pending.Bytes())
		o.pending.Reset()
	}
}

// record writes only warnings, errors and the summary if --quiet or --silent is given.
func (o *output) record(r jsonRecord) {
	kind := r.kind()
	if !o.json || o.isQuiet() && kind != "warning" && kind != "error" && kind != "summary" {
		return
	}
	o.writeAlways(r)
}

// writeAlways ignores --quiet and --silent. The first record contains the schema version.
func (o *output) writeAlways(r jsonRecord) {
	first := 0
	o.mu.Lock()
	if !o.started {
		o.started, first = true, schemaVersion
	}
	o.mu.Unlock()
	r.begin(first, r.kind())
	switch r := r.(type) { // redacted before JSON escapes the quotes in it once more
	case *errorRecord:
		r.Message, r.Detail, r.Hint = o.redactMessage(r.Message), o.redactMessage(r.Detail), o.redactMessage(r.Hint)
	case *warningRecord:
		r.Message, r.Hint = o.redactMessage(r.Message), o.redactMessage(r.Hint)
	}
	o.write(r)
}

func (o *output) isQuiet() bool { return o.quiet || o.silent }

// end writes the summary of a command as a record or, in the text output, as the last line. With
// --silent it writes the line only if the exit code is not 0.
func (o *output) end(s summary, line string) {
	o.last = s
	if !o.json {
		if o.silent && s.ExitCode == 0 {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.put(o.stdout, o.colour.stdout, escapeSteering([]byte(o.redact(line)+"\n")))
		return
	}
	o.record(&s)
	o.flush()
}

func (o *output) line(format string, args ...any) {
	if o.json || o.isQuiet() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(o.stdout, o.colour.stdout, escapeSteering([]byte(o.redact(fmt.Sprintf(format+"\n", args...)))))
}

// put writes lines above the status line of a terminal. The caller holds the lock mu.
func (o *output) put(w io.Writer, colour bool, text []byte) {
	o.bar.clear()
	if colour {
		text = []byte(coloured(string(text)))
	}
	_, _ = w.Write(text)
}

func (o *output) say(format string, args ...any) {
	if o.json || o.isQuiet() {
		return
	}
	o.message(fmt.Sprintf(format, args...))
}

// redact hides the passwords and tokens that the user gave, also by stored settings.
func (o *output) redact(text string) string { return o.secrets.Load().redact(text, false) }

// redactMessage also hides passwords and tokens that others gave.
func (o *output) redactMessage(text string) string { return o.secrets.Load().redact(text, true) }

func (o *output) warn(r warningRecord) {
	o.record(&r)
	if o.json {
		return
	}
	o.message("instep: " + o.withoutKnownReason(r.Message))
	if hinted := o.remember(r.Message, r.Hint).hint; r.Hint != "" && r.Hint != hinted {
		o.message("  hint: " + r.Hint)
	}
}

// maxSaid is the number of earlier warnings with which a new warning is compared.
const maxSaid = 16

// withoutKnownReason replaces the end of a warning by "(see above)", if the end is a colon and the
// text of an earlier warning.
func (o *output) withoutKnownReason(text string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, before := range o.said {
		if head, found := strings.CutSuffix(text, ": "+before); found {
			return head + " (see above)"
		}
	}
	o.said = append(o.said[max(0, len(o.said)+1-maxSaid):], text)
	return text
}

func (o *output) fail(err error, code int, hint string) {
	o.printError("", err, hint)
	if o.json {
		o.end(summary{Status: failureStatus(code), ExitCode: code}, "")
	}
}

func failureStatus(code int) string {
	switch code {
	case exitGuard:
		return "refused"
	case exitTransfer, exitTime:
		return "partial"
	case exitInterrupted, exitTerminated:
		return "interrupted"
	}
	return "failed"
}

// printError prints an error. uri names what failed, and is "" if the error ended the command.
func (o *output) printError(uri string, err error, hint string) {
	told, detail := o.tell(err), printable(o.redactMessage(err.Error()))
	text := printable(told.text)
	if detail == text {
		detail = ""
	}
	if hint == "" {
		hint = told.hint
	}
	before := o.remember(text, hint)
	if before.text != text { // the same message is not printed twice in a row
		o.message("instep: " + text)
	}
	if hint != "" && before.hint != hint {
		o.message("  hint: " + hint)
	}
	if o.verbose && detail != "" {
		o.message("  details: " + detail)
	}
	o.record(&errorRecord{URI: uri, Message: text, Detail: detail, Hint: hint})
}

func (o *output) remember(text, hint string) (before sentence) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, o.warned = o.warned, sentence{text, hint}
	return before
}

func (o *output) message(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(o.stderr, o.colour.stderr, []byte(printable(o.redactMessage(text))+"\n"))
}
