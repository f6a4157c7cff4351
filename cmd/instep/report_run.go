package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/runs"
	"instep/mirror"
)

// runLog writes the record of a run on a mirror, for instep errors and instep report.
type runLog struct {
	*runs.Log
	a *app
}

// newRun writes nothing. The record of the run begins when start is called.
func (a *app) newRun(command, source, dir string) *runLog {
	a.out.last = summary{} // reset, because with --watch the output still has the summary of the previous run
	l := &runLog{a: a, Log: runs.NewLog(runs.Run{
		Command: command, Source: a.out.redact(source), Dir: dir, Options: a.given, Begun: a.now(),
		Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
	}, a.now)}
	l.Redact = func(text string, message bool) string { return a.out.secrets.Load().redact(text, message) }
	return l
}

// start requires a mirror that exists and is writable.
func (l *runLog) start(ctx context.Context, m *mirror.Mirror, dir, state string) {
	last, err := m.LastRun(ctx)
	if err == nil {
		err = l.Begin(mirror.StateDir(dir, state), last)
	}
	if err != nil {
		l.a.out.warn(warningRecord{Message: fmt.Sprintf("no record of this run is kept: %v", err)})
	}
}

// recordChanged records that the run changed the mirror, if it did. It records no change if the
// catalog of the mirror cannot be read.
func (l *runLog) recordChanged(ctx context.Context, m *mirror.Mirror) {
	if n, err := m.Run(context.WithoutCancel(ctx)); err == nil && n != 0 {
		l.Changed()
	}
}

// end completes the record with the last summary of the command, or with the error that ended the
// run early.
func (l *runLog) end(ctx context.Context, err error) {
	s := l.a.out.last
	o := runs.Outcome{Status: s.Status, ExitCode: s.ExitCode, Counts: s.counts()}
	if err == nil {
		err = l.Early()
	}
	if err != nil {
		o.ExitCode, o.Hint = explain(ctx, err)
		o.Status, o.Error = failureStatus(o.ExitCode), l.a.out.tell(rootCause(ctx, err)).text
	}
	if err := l.End(o); err != nil {
		l.a.out.warn(warningRecord{Message: err.Error()})
	}
}

func (l *runLog) addSkips(skipped map[string]int64) {
	for name, n := range sortedByName(skipped) {
		skip := destination.Skip(name)
		missed := destination.Missed(map[destination.Skip]int64{skip: n}) > 0
		l.Add(runs.Row{Kind: runs.Note, Message: leftAlone(n, name), Hint: skipHints[skip], Open: missed})
	}
}

// addNotes records what a sync left open, with the messages and hints that it prints.
func (s *syncer) addNotes(log *runLog, t *totals) {
	log.addSkips(stringKeys(t.Skipped))
	for _, w := range s.leftOpen(t) {
		log.Add(runs.Row{Kind: runs.Note, Set: w.Set, Message: w.Message, Hint: w.Hint, Open: true})
	}
	for _, err := range t.Partial {
		log.Partial("", err)
	}
}

func runText(id int64) string { return strconv.FormatInt(id, 10) }

func parseRun(text, dir string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, usagef("%s has no run %q; instep report %s lists them", dir, text, shellLine(dir))
	}
	return id, nil
}

func (s *summary) counts() map[string]int64 {
	m := map[string]int64{}
	for name, n := range map[string]*int64{
		"same": s.Same, "created": s.Created, "updated": s.Updated, "deleted": s.Deleted, "failed": s.Failed, "withheld": s.Withheld, "gaps": s.Gaps,
		"missing": s.Missing, "extra": s.Extra, "different": s.Different, "unverifiable": s.Unverifiable, "errors": s.Errors,
		"weak": s.Weak, "unverified": s.Unverified, "unread": s.Unread, "repaired": s.Repaired, "kept": s.KeptResources, "bytes": s.Bytes, "requests": s.Requests,
	} {
		if n != nil {
			m[name] = *n
		}
	}
	return m
}

// rememberedFlags are the flags that are recorded with a run, so that a user can repeat the
// run. The flag --proxy is not recorded, because its value may contain a password.
var rememberedFlags = []string{
	"set", "allow-origin", "allow-private", "include", "exclude", "type", "only-collection", "only-profile", "with-metadata", "where", "versions", "workers", "rate", "bwlimit", "max-document", "strict", "state",
	"netrc", "bearer-file", "header-file", "ca", "cert", "key", "retries", "timeout", "user-agent",
	"max-delete", "max-time", "max-transfer", "keep-deleted", "keep-versions", "keep-log", "prefer", "duplicates", "adopt", "layout", "at", "quick", "repair",
}

// givenFlags returns the flags on the command line, without passwords.
func (a *app) givenFlags(cmd *cobra.Command) (given []string) {
	for _, name := range rememberedFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		list, repeatable := f.Value.(listValue)
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
	for i := range given {
		given[i] = a.out.redact(given[i])
	}
	return given
}

type reportRecord struct {
	recordHead
	RunID    string           `json:"run_id"`
	Command  string           `json:"command"`
	Source   string           `json:"source,omitempty"`
	Flags    []string         `json:"flags,omitempty"`
	Begun    string           `json:"begun"`
	Ended    string           `json:"ended,omitempty"`
	Finished bool             `json:"finished"`
	Alike    int64            `json:"alike,omitempty"`
	Since    string           `json:"since,omitempty"`
	Status   string           `json:"status,omitempty"`
	ExitCode *int             `json:"exit_code,omitempty"`
	Message  string           `json:"message,omitempty"`
	Hint     string           `json:"hint,omitempty"`
	Counts   map[string]int64 `json:"counts,omitempty"`
	Causes   map[string]int64 `json:"causes,omitempty"`
	Quirks   map[string]int64 `json:"quirks,omitempty"`
	Run      int64            `json:"run,omitempty"` // the number of the run in the history of the mirror; 0 if the run did not change the mirror
	Version  string           `json:"version,omitempty"`
	Go       string           `json:"go,omitempty"`
}

func recordOf(rec *runs.Record) *reportRecord {
	r := &reportRecord{
		RunID: runText(rec.ID), Command: rec.Command, Source: rec.Source, Flags: rec.Options, Begun: rec.Begun.UTC().Format(time.RFC3339Nano),
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
		r.Message, r.Hint, r.Counts = e.Error, e.Hint, e.Counts
		if e.Changed {
			r.Run = rec.ID
		}
		if r.Alike = e.Alike; e.Alike > 0 {
			r.Since = e.Since.UTC().Format(time.RFC3339Nano)
		}
	}
	return r
}
