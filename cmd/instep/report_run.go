package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/fetch"
	"instep/internal/runs"
	"instep/mirror"
)

// runLog keeps the record of a run on a mirror, for instep errors and instep report.
type runLog struct {
	a       *app
	run     runs.Run
	repairs bool // differences may be repaired by the end

	mu      sync.Mutex     // guards the rest
	rec     *runs.Recorder // nil before start, and where none can be kept
	pending []runs.Row     // told before start
	change  int64          // the number of the run in the mirror's history; 0: none
	early   error          // error that ended the run, if its summary does not have it
}

// maxPending bounds the rows that wait for a mirror to be made.
const maxPending = 1000

// newRun makes the record of a run that begins now. Nothing is written before start.
func (a *app) newRun(command, source, dir string) *runLog {
	a.out.last = summary{} // the summary of an earlier run of a watch
	return &runLog{a: a, run: runs.Run{
		Command: command, Source: source, Dir: dir, Options: a.given, Begun: a.now(),
		Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
	}}
}

// start begins the record in the state of a mirror that exists and is writable.
func (l *runLog) start(state string) {
	rec, err := runs.Begin(mirror.StateDir(l.run.Dir, state), l.run, l.a.now)
	if err != nil {
		l.a.out.warn(record{Message: fmt.Sprintf("no record of this run is kept: %v", err)})
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec = rec
	for _, row := range l.pending {
		rec.Add(row)
	}
	l.pending = nil
}

func (l *runLog) add(row runs.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.rec != nil:
		l.rec.Add(row)
	case len(l.pending) < maxPending:
		l.pending = append(l.pending, row)
	}
}

// event records an event.
func (l *runLog) event(e destination.Event) {
	switch e.Kind {
	case destination.EventPlanned:
		l.add(runs.Row{Kind: runs.Set, Set: e.Set, Mode: string(e.Plan.Mode), Message: e.Plan.Why})
	case destination.EventNote:
		l.add(runs.Row{Kind: runs.Note, Set: e.Set, Quirk: int(e.Quirk), Message: e.Text})
	case destination.EventFailed:
		l.add(runs.Row{
			Kind: runs.Failure, Set: e.Set, Cause: string(destination.CauseOf(e.Err)), URI: e.Action.Want.URI, Message: e.Err.Error(), Hint: flagFor(e.Err),
		})
	case destination.EventVerdict:
		l.verdict(e)
	}
}

// verdict records a difference that an audit found; of a repair, one that remains.
func (l *runLog) verdict(e destination.Event) {
	cause := e.Verdict.Cause()
	if cause == "" || l.repairs && !e.Again && e.Verdict != destination.VerdictExtra {
		return
	}
	row := runs.Row{Kind: runs.Failure, Set: e.Set, Cause: string(cause), URI: e.Action.Want.URI, Path: e.Path}
	if e.Err != nil {
		row.Message = e.Err.Error()
	}
	l.add(row)
}

// flagFor returns the flag that would permit what our own policy refused; "" if there is
// none.
func flagFor(err error) string {
	var fe *fetch.Error
	switch {
	case !errors.As(err, &fe):
		return ""
	case fe.AllowOrigin != "":
		return "--allow-origin " + fe.AllowOrigin
	case fe.AllowPrivate != "":
		return "--allow-private " + fe.AllowPrivate
	}
	return ""
}

// totals records the unfinished parts of a run.
func (l *runLog) totals(t *totals) {
	for skip, n := range sorted(t.Skipped) {
		l.add(runs.Row{Kind: runs.Note, Message: fmt.Sprintf("%s left alone: %s", counted(n, "resource"), skip)})
	}
	for origin, n := range sorted(t.origins) {
		l.add(runs.Row{Kind: runs.Note, Message: fmt.Sprintf("left out: %s of %s, which is not the Source's own origin", counted(n, "resource"), origin), Hint: "--allow-origin " + origin})
	}
	for _, w := range t.withheld {
		l.add(runs.Row{Kind: runs.Note, Set: w.set, Message: fmt.Sprintf("the guard withheld %s", counted(w.n, "deletion")), Hint: w.hash})
	}
	for _, n := range t.gaps {
		l.gap(n.set, n.text)
	}
	for _, err := range t.partial {
		l.partial("", err)
	}
}

// gap records which changes of a set are unknown.
func (l *runLog) gap(set, text string) {
	l.add(runs.Row{Kind: runs.Note, Set: set, Message: text, Hint: "--accept-gap"})
}

// partial records that documents of a set could not be used.
func (l *runLog) partial(set string, err error) {
	l.add(runs.Row{Kind: runs.Failure, Set: set, Cause: string(destination.CauseDocument), Message: err.Error(), Hint: flagFor(err)})
}

// ended returns what ended the run early, although the command has a summary of it.
func (l *runLog) ended(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = err
}

// changed notes which run of its history changed the mirror.
func (l *runLog) changed(ctx context.Context, m *mirror.Mirror) {
	n, err := m.Run(context.WithoutCancel(ctx))
	if err != nil {
		return // the record does without
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change = n
}

// end ends the record with the command's last summary, or the error that ended it early.
func (l *runLog) end(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec == nil {
		return
	}
	s := l.a.out.last
	o := runs.Outcome{Change: l.change, Status: s.Status, ExitCode: s.ExitCode, Counts: s.counts()}
	if err == nil {
		err = l.early
	}
	if err != nil {
		o.ExitCode, o.Hint = explain(ctx, err)
		o.Status, o.Error = failure(o.ExitCode), tell(plainly(ctx, err)).text
	}
	o.Idle = err == nil && l.idle(&o)
	if err := l.rec.End(o); err != nil {
		l.a.out.warn(record{Message: err.Error()})
	}
	l.rec = nil
}

// idle reports whether a synchronisation found nothing to do and nothing to report.
func (l *runLog) idle(o *runs.Outcome) bool {
	tally := l.rec.Tally()
	return l.run.Command == "sync" && o.ExitCode == exitOK && len(tally.Causes)+len(tally.Quirks) == 0 &&
		o.Counts["created"]+o.Counts["updated"]+o.Counts["deleted"] == 0
}

// counts are the numbers of a summary by their names in JSON.
func (s *summary) counts() map[string]int64 {
	m := map[string]int64{}
	for name, n := range map[string]*int64{
		"same": s.Same, "created": s.Created, "updated": s.Updated, "deleted": s.Deleted, "failed": s.Failed, "withheld": s.Withheld, "gaps": s.Gaps,
		"missing": s.Missing, "extra": s.Extra, "different": s.Different, "unverifiable": s.Unverifiable, "errors": s.Errors,
		"weak": s.Weak, "unverified": s.Unverified, "unread": s.Unread, "repaired": s.Repaired, "bytes": s.Bytes, "requests": s.Requests,
	} {
		if n != nil {
			m[name] = *n
		}
	}
	return m
}

// rememberedFlags are recorded with a run, so that the same Source can be read in the same
// way again. The address of a proxy may hold a password and is not recorded.
var rememberedFlags = []string{
	"set", "allow-origin", "allow-private", "include", "exclude", "type", "workers", "rate", "bwlimit", "max-document", "strict", "state",
	"netrc", "bearer-file", "header-file", "ca", "cert", "key", "retries", "timeout", "user-agent",
	"max-delete", "max-time", "max-transfer", "keep-deleted", "keep-versions", "prefer", "adopt", "layout", "at", "quick", "repair",
}

// givenFlags are the flags of a command line as they would be given again.
func givenFlags(cmd *cobra.Command) []string {
	var given []string
	for _, name := range rememberedFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		list, repeatable := f.Value.(interface{ GetSlice() []string })
		switch {
		case repeatable:
			for _, v := range list.GetSlice() {
				given = append(given, "--"+name+"="+v)
			}
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			given = append(given, "--"+name)
		default:
			given = append(given, "--"+name+"="+f.Value.String())
		}
	}
	return given
}

// reportRecord is a run as a JSON record.
type reportRecord struct {
	SchemaVersion int              `json:"schema_version,omitempty"`
	Type          string           `json:"type"`
	RunID         string           `json:"run_id"`
	Command       string           `json:"command"`
	Source        string           `json:"source,omitempty"`
	Flags         []string         `json:"flags,omitempty"`
	Begun         string           `json:"begun"`
	Ended         string           `json:"ended,omitempty"`
	Finished      bool             `json:"finished"`
	Status        string           `json:"status,omitempty"`
	ExitCode      *int             `json:"exit_code,omitempty"`
	Message       string           `json:"message,omitempty"`
	Hint          string           `json:"hint,omitempty"`
	Counts        map[string]int64 `json:"counts,omitempty"`
	Causes        map[string]int64 `json:"causes,omitempty"`
	Quirks        map[string]int64 `json:"quirks,omitempty"`
	Run           int64            `json:"run,omitempty"` // its number in the history of the mirror
	Version       string           `json:"version,omitempty"`
	Go            string           `json:"go,omitempty"`
}

func recordOf(rec *runs.Record) reportRecord {
	r := reportRecord{
		RunID: rec.ID, Command: rec.Command, Source: rec.Source, Flags: rec.Options, Begun: rec.Begun.UTC().Format(time.RFC3339Nano),
		Causes: rec.Causes, Version: rec.Version, Go: rec.Go,
	}
	for quirk, n := range rec.Quirks {
		if r.Quirks == nil {
			r.Quirks = map[string]int64{}
		}
		r.Quirks[strconv.Itoa(quirk)] = n
	}
	if e := rec.End; e != nil {
		r.Finished, r.Ended, r.Status, r.ExitCode = true, e.Ended.UTC().Format(time.RFC3339Nano), e.Status, &e.ExitCode
		r.Message, r.Hint, r.Counts, r.Run = e.Error, e.Hint, e.Counts, e.Change
	}
	return r
}

// report writes the record of a run.
func (o *output) report(r reportRecord) {
	if !o.json || o.few() {
		return
	}
	r.SchemaVersion, r.Type = o.first(), "report"
	o.write(r)
}
