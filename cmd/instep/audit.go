package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/mirror"
)

const auditHelp = `Audit compares what DIR holds, reading every byte, with what SOURCE says at one
moment: its Resource List and the changes since. It prints every resource that is not
the same, with a mark before it:

    +  missing here              *  other bytes than the Source's
    -  here, not at the Source   !  could not be read
    ?  nothing to compare with

What is missing or damaged is marked, and the next sync brings it. Exit code 3 if there
is any difference.`

func (a *app) auditCommand() *cobra.Command {
	var f sourceFlags
	cmd := &cobra.Command{
		Use:     "audit SOURCE DIR",
		Short:   "prove that a mirror is in step",
		Long:    auditHelp,
		Example: `  instep audit https://museum.example.org/ ./mirror`,
		Args:    exactArgs("SOURCE", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.audit(cmd.Context(), args[0], args[1], &f)
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) audit(ctx context.Context, source, dir string, f *sourceFlags) (err error) {
	begin := a.now()
	var net traffic
	client, err := a.connect(ctx, source, f, &net)
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mirror.Open(ctx, mirror.Options{Dir: dir, State: f.state, Now: a.now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	progress := a.newProgress("audit")
	defer progress.stop()
	d := f.destination(source, m, client)
	d.Observe = func(e destination.Event) { a.auditEvent(e, progress) }
	audit, err := d.Audit(ctx)
	progress.stop()
	if err != nil {
		return err
	}
	a.reportAudit(audit, &net, a.now().Sub(begin))
	return nil
}

var verdictMarks = map[destination.Verdict]string{
	destination.VerdictSame: "=", destination.VerdictMissing: "+", destination.VerdictExtra: "-",
	destination.VerdictDifferent: "*", destination.VerdictUnverifiable: "?", destination.VerdictError: "!",
}

func (a *app) auditEvent(e destination.Event, p *progressBar) {
	switch e.Kind {
	case destination.EventNote:
		a.out.warn(record{Message: e.Text, Set: e.Set, Quirk: int(e.Quirk)})
	case destination.EventVerdict:
		p.done(0)
		r := record{Type: "verdict", Verdict: string(e.Verdict), URI: e.Action.Want.URI, Path: e.Path}
		if e.Err != nil {
			r.Message = e.Err.Error()
		}
		a.out.record(r)
		if e.Verdict == destination.VerdictSame && !a.out.verbose {
			return
		}
		name := e.Path
		if name == "" {
			name = e.Action.Want.URI
		}
		a.out.line("%s %s", verdictMarks[e.Verdict], printable(name))
	}
}

func (a *app) reportAudit(audit *destination.Audit, net *traffic, took time.Duration) {
	n := map[destination.Verdict]int64{}
	var bytes int64
	skipped := map[string]int64{}
	for _, s := range audit.Sets {
		n = addAll(n, s.Verdicts)
		bytes += s.Bytes
		for skip, count := range s.Skipped {
			skipped[string(skip)] += count
		}
		if s.Partial != nil {
			a.out.warn(record{Set: s.Set, Message: "the Source's documents are incomplete: " + s.Partial.Error()})
		}
		a.out.say("%s: compared with the Source as it was at %s", s.Set, s.At.UTC().Format(time.RFC3339))
	}
	for skip, count := range sorted(skipped) {
		a.out.say("%d resources left alone: %s", count, skip)
	}
	status := "in-sync"
	if !audit.InSync() {
		status, a.code = "not-in-sync", exitDifferences
	}
	a.out.end(summary{
		Status: status, Same: num(n[destination.VerdictSame]), Missing: num(n[destination.VerdictMissing]), Extra: num(n[destination.VerdictExtra]),
		Different: num(n[destination.VerdictDifferent]), Unverifiable: num(n[destination.VerdictUnverifiable]), Errors: num(n[destination.VerdictError]),
		Skipped: skipped, Bytes: num(bytes), Requests: num(net.requests.Load()), Seconds: seconds(took), ExitCode: a.code,
	}, fmt.Sprintf("Status: %s (same=%d, missing=%d, extra=%d, different=%d, unverifiable=%d, errors=%d)   %s, %s read",
		words[status], n[destination.VerdictSame], n[destination.VerdictMissing], n[destination.VerdictExtra], n[destination.VerdictDifferent],
		n[destination.VerdictUnverifiable], n[destination.VerdictError], took.Round(10*time.Millisecond), humanize.Bytes(uint64(bytes))))
}
