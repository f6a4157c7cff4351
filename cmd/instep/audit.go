package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/runs"
	"instep/mirror"
)

const auditHelp = `Audit compares the mirror in DIR with SOURCE at one moment: with the Resource List and the
changes after it. It reads every byte of the mirror, and prints every resource that is not the
same, with a mark before it:

    +  missing in the mirror       *  other bytes than the Source's
    -  missing at the Source       !  could not be read
    ?  could not be compared: the Source gives no digest, or the resource changed
       during the audit

Audit uses the filters and other settings that sync stored with the mirror. Flags override them.

Audit marks missing and damaged resources, and the next sync fetches them. With --repair audit
fetches them itself, and reports what is still different. It never deletes resources that are
missing at the Source; only sync does. If the mirror is read-only, audit marks nothing.

Exit code 3 if there is a difference. Exit code 4 if there is none, but something could not be
compared: changes that no document contains (unless --accept-gap is given), resources of another
origin, or a set that the Source no longer offers.

With --quick audit reads only those files whose size or modification time has changed since they
were stored. It takes the digests of all others from the mirror's catalog, so it does not find
damage of the disk.

--report writes a report to FILE, whose extension chooses the format: .html, .csv or .json. The
report names the date, the Source and the time of its documents, the host and directory of the
mirror, versions, flags, totals, each resource, and what restore --keep keeps; the HTML report
leaves out resources that are the same. It ends with the SHA-256 of everything before its last
line.`

type auditFlags struct {
	sourceFlags
	quick, repair bool
	acceptGap     bool
	report        string
}

func (a *app) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit SOURCE DIR",
		Short: "prove that a mirror is in step with its Source",
		Long:  auditHelp,
		Example: `  instep audit https://museum.example.org/ ./mirror
  instep audit --quick https://museum.example.org/ ./mirror
  instep audit --repair --report audit.html https://museum.example.org/ ./mirror`,
		Args: exactArgs("SOURCE", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.given = a.givenFlags(cmd)
			return a.audit(cmd, args[0], args[1], &f)
		},
	}
	f.register(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&f.quick, "quick", false, "read only files whose size or time of modification has changed")
	fs.BoolVar(&f.repair, "repair", false, "fetch resources that are missing or different, and audit them again")
	registerAcceptGap(cmd, &f.acceptGap)
	fs.StringVar(&f.report, "report", "", "write a report to `FILE`, whose name ends in .html, .csv or .json")
	return cmd
}

func (a *app) audit(cmd *cobra.Command, source, dir string, f *auditFlags) (err error) {
	ctx := cmd.Context()
	form := reportFormOf(f.report)
	if f.report != "" && form == nil {
		return usagef("--report %q: expected a name that ends in .html, .csv or .json", f.report)
	}
	o := mirror.Options{Dir: dir, State: f.state, Now: a.now}
	m, readOnly, err := a.openAudited(ctx, o, f.repair)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, err := a.useSettings(ctx, cmd, source, o, m); err != nil {
		return err
	}
	var net traffic
	client, uri, done, err := a.reach(ctx, source, &f.sourceFlags, &net)
	if err != nil {
		return err
	}
	defer done()
	log := a.newRun("audit", source, dir)
	log.Repairs = f.repair
	defer func() { log.end(ctx, err) }()
	if !readOnly {
		log.start(ctx, m, dir, f.state)
	}
	if f.repair {
		if err := m.BeginRun(ctx, "audit", log.ID()); err != nil {
			return err
		}
	}
	d := f.destination(uri, m, client)
	d.Quick, d.ReadOnly, d.AcceptGap = f.quick, readOnly, f.acceptGap
	var s summary
	var line string
	run := func(report *auditReport) (err error) {
		defer func() { err = errors.Join(err, report.close()) }()
		s, line, err = a.runAudit(ctx, d, m, dir, f, report, log, &net)
		return err
	}
	if form == nil {
		err = run(nil)
	} else {
		err = writeWhole(ctx, f.report, func(w io.Writer) error { return run(a.newAuditReport(w, form, source, dir, a.now())) })
	}
	if err != nil {
		return err
	}
	if !f.quick {
		if err := a.reportStrangers(ctx, m, dir); err != nil {
			return err
		}
	}
	a.out.end(s, line)
	return nil
}

// reportKept reports the resources that restore --keep holds, and returns their number. The audit
// does not count these resources as extra, even if the Source no longer has them.
func (a *app) reportKept(ctx context.Context, m *mirror.Mirror, dir, state string, report *auditReport) (n int64, err error) {
	var first string
	for h, err := range m.Members(ctx, mirror.KeptSet) {
		if err != nil {
			return n, err
		}
		if n++; n == 1 {
			first = h.Path
		}
		a.out.record(&resourceRecord{URI: h.URI, Path: h.Path, Set: mirror.KeptSet, Verified: &h.Verified})
		report.row(reportRow{Set: mirror.KeptSet, Verdict: verdictKept, URI: h.URI, Path: h.Path})
	}
	if n > 0 {
		command := []string{"instep", "restore", "--release"}
		if state != "" {
			command = append(command, "--state", state)
		}
		a.out.warn(warningRecord{
			Message: counted(n, "resource") + " kept in an earlier state by restore --keep, whatever the Source has",
			Hint:    "to let a resource follow the Source again: " + shellLine(append(command, dir, first)...),
		})
	}
	return n, nil
}

func (a *app) runAudit(ctx context.Context, d *destination.Destination, m *mirror.Mirror, dir string, f *auditFlags, report *auditReport, log *runLog, net *traffic) (_ summary, lastLine string, _ error) {
	begin := a.now()
	progress := a.newProgress("audit", nil)
	defer progress.stop()
	d.Observe = func(e destination.Event) {
		log.Event(e)
		report.event(e)
		a.auditEvent(e, progress)
	}
	if d.Quick {
		a.out.say("quick: only files whose size or time of modification has changed are read")
	}
	var audit *destination.Audit
	var err error
	if f.repair {
		audit, _, err = d.Repair(ctx)
	} else {
		audit, err = d.Audit(ctx)
	}
	progress.stop()
	if err != nil {
		return summary{}, "", err
	}
	kept, err := a.reportKept(ctx, m, dir, f.state, report)
	if err != nil {
		return summary{}, "", err
	}
	s, line := a.reportAudit(audit, log, net, a.now().Sub(begin))
	s.KeptResources = positive(kept)
	return s, line, report.end(audit, &s, a.now())
}

func (a *app) openAudited(ctx context.Context, o mirror.Options, repair bool) (m *mirror.Mirror, readOnly bool, err error) {
	m, err = mirror.Open(ctx, o)
	if err == nil || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return m, false, err
	}
	if repair {
		return nil, false, fmt.Errorf("a read-only mirror cannot be repaired: %w", err)
	}
	m, readErr := openExisting(ctx, o)
	if readErr != nil {
		return nil, false, errors.Join(err, readErr)
	}
	a.out.warn(warningRecord{Message: "the mirror can only be read: the audit marks no resource for the next sync, and no record of this run is kept"})
	return m, true, nil
}

var verdictMarks = map[destination.Verdict]string{
	destination.VerdictSame: "=", destination.VerdictMissing: "+", destination.VerdictExtra: "-",
	destination.VerdictDifferent: "*", destination.VerdictUnverifiable: "?", destination.VerdictError: "!",
}

func (a *app) auditEvent(e destination.Event, p *progressBar) {
	switch e.Kind {
	case destination.EventTried:
		a.tellAttempt(e)
	case destination.EventNote:
		a.out.warn(warningRecord{Message: e.Text, Set: e.Set, Quirk: int(e.Quirk)})
	case destination.EventFailed:
		p.showFailure(e.Err.Error())
		a.out.printError(e.Action.Want.URI, e.Err, "")
	case destination.EventVerdict:
		p.showFile(e.Path)
		p.countFile(e.Bytes)
		r := verdictRecord{Verdict: string(e.Verdict), URI: e.Action.Want.URI, Path: e.Path, Again: e.Again}
		if e.Err != nil {
			r.Message = e.Err.Error()
		}
		a.out.record(&r)
		if e.Verdict == destination.VerdictSame && !e.Again && !a.out.verbose {
			return
		}
		again := ""
		if e.Again {
			again = "   (after the repair)"
		}
		a.out.line("%s %s%s", verdictMarks[e.Verdict], printable(cmp.Or(e.Path, e.Action.Want.URI)), again)
	}
}

type auditTotals struct {
	verdicts                      map[destination.Verdict]int64
	skipped                       map[string]int64
	bytes, unread, weak, repaired int64
}

func totalsOf(audit *destination.Audit) auditTotals {
	t := auditTotals{verdicts: map[destination.Verdict]int64{}, skipped: map[string]int64{}}
	for _, s := range audit.Sets {
		runs.AddCounts(t.verdicts, s.Verdicts)
		for skip, n := range s.Skipped {
			t.skipped[string(skip)] += n
		}
		t.bytes += s.Bytes
		t.unread += s.Unread
		t.weak += s.Weak
		t.repaired += s.Repaired
	}
	return t
}

func (a *app) reportAudit(audit *destination.Audit, log *runLog, net *traffic, took time.Duration) (_ summary, lastLine string) {
	for _, s := range audit.Sets {
		if s.Partial != nil {
			a.out.warn(warningRecord{Set: s.Set, Message: "the Source's documents are incomplete: " + s.Partial.Error()})
			log.Partial(s.Set, s.Partial)
		}
		if s.Gap != "" {
			a.out.warn(warningRecord{Set: s.Set, Message: s.Gap, Gap: s.Gap, Hint: "the next Resource List of the Source includes the unknown changes; --accept-gap accepts that they are unknown until then"})
			log.Gap(s.Set, s.Gap)
		}
		if !s.At.IsZero() {
			a.out.say("%s: compared with the Resource List of %s and the changes since then", s.Set, s.At.UTC().Format(time.RFC3339))
		}
	}
	for _, o := range audit.Orphans {
		w := warningRecord{Set: o.Set, Message: fmt.Sprintf("the Source no longer offers the set %s, so it was not compared (%s)", o.Set, counted(o.Members, "resource"))}
		a.out.warn(w)
		log.Add(runs.Row{Kind: runs.Note, Set: w.Set, Message: w.Message, Open: true})
	}
	t := totalsOf(audit)
	log.addSkips(t.skipped)
	for skip, count := range sortedByName(t.skipped) {
		a.out.say("%s", leftAlone(count, skip))
	}
	for _, told := range []struct {
		n    int64
		text string
	}{
		{t.unread, "judged by size and time of modification, without reading the bytes"},
		{t.weak, "equal by md5, sha-1 or sha-224 only, which can be forged"},
		{t.repaired, "repaired"},
	} {
		if told.n > 0 {
			a.out.say("%s %s", counted(told.n, "resource"), told.text)
		}
	}
	status := "in-sync"
	switch {
	case audit.Differs():
		status, a.code = "not-in-sync", exitDifferences
	case !audit.InSync(): // no difference was found, but not everything was compared
		status, a.code = "partial", exitPartial
	}
	n := t.verdicts
	s := summary{
		Status: status, Same: num(n[destination.VerdictSame]), Missing: num(n[destination.VerdictMissing]), Extra: num(n[destination.VerdictExtra]),
		Different: num(n[destination.VerdictDifferent]), Unverifiable: num(n[destination.VerdictUnverifiable]), Errors: num(n[destination.VerdictError]),
		Weak: num(t.weak), Unread: num(t.unread), Repaired: num(t.repaired),
		Skipped: t.skipped, Bytes: num(t.bytes), Requests: num(net.requests.Load()), Seconds: seconds(took), ExitCode: a.code,
	}
	return s, fmt.Sprintf("Status: %s (same=%d, missing=%d, extra=%d, different=%d, unverifiable=%d, errors=%d)   %s, %s read",
		words[status], *s.Same, *s.Missing, *s.Extra, *s.Different, *s.Unverifiable, *s.Errors, took.Round(10*time.Millisecond), humanSize(t.bytes))
}
