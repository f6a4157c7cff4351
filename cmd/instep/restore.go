package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"instep/mirror"
	"instep/resourcesync"
)

const restoreHelp = `Restore brings back an earlier state of a resource, byte for byte and verified: the last state
whose bytes differ from the present ones, or the state at the time of --at. Name the resource by
its URI, or by its path below DIR. With --to restore writes the bytes to a new file and does
not change the mirror. With --deleted-since it brings back every resource that was deleted since
that time and that no set has now.

A restored resource differs from the Source. The next sync brings back the Source's state: it
fetches a resource whose earlier state was restored, and deletes a resource that the Source no
longer has, unless the guard withholds the deletion. With --keep the restored state stays, even
if it is the present one. Audit reports it where it differs from the Source's state; if the
Source no longer has the resource, audit only says that it is kept. --release ends that.

The replaced state is kept, too: "instep undo" reverts a restore.`

type restoreFlags struct {
	state, at, to, deletedSince, memento string
	keep, release, dryRun                bool
}

func (a *app) restoreCommand() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore DIR [URI|PATH]",
		Short: "bring earlier states of resources back",
		Long:  restoreHelp,
		Example: `  instep restore ./mirror photos/1.jpg --at 2026-03-01 --to old.jpg
  instep restore ./mirror photos/1.jpg --keep
  instep restore ./mirror --deleted-since 2026-03-01T12:00:00Z`,
		Args: optionalArgs(1, "DIR", "URI|PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.restore(cmd.Context(), args[0], args[1:], &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.at, "at", "", "restore the state at this `TIME`")
	fs.StringVar(&f.memento, "memento", "", "with --to: write the version that the Source had at this `TIME`, if sync --versions has fetched it")
	fs.StringVar(&f.to, "to", "", "write the bytes to a new `FILE` and do not change the mirror")
	fs.StringVar(&f.deletedSince, "deleted-since", "", "restore everything that was deleted at this `TIME` or later")
	fs.BoolVar(&f.keep, "keep", false, "keep what is restored, even if the Source has another state")
	fs.BoolVar(&f.release, "release", false, "end --keep for a resource, so that the next sync brings the Source's state")
	dryRunFlag(cmd, &f.dryRun)
	stateFlag(cmd, &f.state)
	return cmd
}

func (f *restoreFlags) check(name []string) error {
	switch {
	case (len(name) > 0) == (f.deletedSince != ""):
		return usagef("give the URI or path of a resource, or --deleted-since")
	case f.deletedSince != "" && (f.at != "" || f.to != "" || f.release):
		return usagef("--deleted-since can be combined with --keep and --dry-run only")
	case f.release && (f.at != "" || f.to != "" || f.keep || f.dryRun):
		return usagef("--release cannot be combined with other flags")
	case f.memento != "" && (f.to == "" || f.at != "" || f.deletedSince != ""):
		return usagef("--memento requires --to FILE and no other flag, because the mirror never held this version of the Source")
	case f.to != "" && (f.keep || f.dryRun):
		return usagef("--to does not change the mirror, so it cannot be combined with --keep and --dry-run")
	}
	return nil
}

func (a *app) restore(ctx context.Context, dir string, name []string, f *restoreFlags) (err error) {
	if err := f.check(name); err != nil {
		return err
	}
	at, err := a.parseMoment("at", f.at)
	if err != nil {
		return err
	}
	since, err := a.parseMoment("deleted-since", f.deletedSince)
	if err != nil {
		return err
	}
	m, err := a.openToRevert(ctx, dir, f.state, f.dryRun || f.to != "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	how := reverting{what: "restore", dir: dir, state: f.state, keep: f.keep, dryRun: f.dryRun}
	if f.deletedSince != "" {
		return a.revert(ctx, m, m.DeletedSince(ctx, since), how)
	}
	uri, err := m.Find(ctx, name[0])
	if err != nil {
		return err
	}
	if f.memento != "" {
		moment, err := a.parseMoment("memento", f.memento)
		if err != nil {
			return err
		}
		return a.restoreMemento(ctx, mirror.StateDir(dir, f.state), uri, name[0], moment, f.to)
	}
	if f.release {
		return a.release(ctx, m, uri, name[0], how)
	}
	states, err := m.At(ctx, uri, at)
	if err != nil {
		return fmt.Errorf("%s: %w", name[0], err)
	}
	if f.to != "" {
		return a.restoreTo(ctx, m, &states[0], f.to)
	}
	if states[0].SetURI == mirror.KeptSet && !f.keep {
		return fmt.Errorf("%s: %w, apart from one that restore --keep held: give --keep to hold that state again, or --to FILE to write it to a file", name[0], mirror.ErrNoVersion)
	}
	return a.revert(ctx, m, stepsTo(states, f.keep), how)
}

func (a *app) openToRevert(ctx context.Context, dir, state string, readOnly bool) (*mirror.Mirror, error) {
	if readOnly {
		return a.openPast(ctx, dir, state)
	}
	return mirror.Open(ctx, mirror.Options{Dir: dir, State: state, Now: a.now})
}

// stepsTo yields the steps that restore the given states. It skips states that the mirror has now,
// unless keep is set.
func stepsTo(states []mirror.Version, keep bool) iter.Seq2[mirror.Reversal, error] {
	return func(yield func(mirror.Reversal, error) bool) {
		for _, v := range states {
			if (keep || !v.Present()) && !yield(mirror.Reversal{Version: v}, nil) {
				return
			}
		}
	}
}

func (a *app) release(ctx context.Context, m *mirror.Mirror, uri, name string, how reverting) (err error) {
	log, err := a.beginRevert(ctx, m, how)
	if err != nil {
		return err
	}
	defer func() { log.end(ctx, err) }()
	if err := m.Release(ctx, uri); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	log.recordChanged(ctx, m)
	a.out.end(summary{Status: "clean"}, "Released. The next sync brings the Source's state; a resource that the Source does not have is in the trash now.")
	return nil
}

func (a *app) restoreTo(ctx context.Context, m *mirror.Mirror, v *mirror.Version, file string) error {
	err := writeCopy(ctx, file, func() (io.ReadCloser, error) { return m.OpenVersion(ctx, v) })
	if err != nil {
		return err
	}
	if !v.LastMod.IsZero() {
		t := v.LastMod.Time()
		if err := os.Chtimes(file, t, t); err != nil {
			return fmt.Errorf("set the modification time of %s to its lastmod: %w", file, err)
		}
	}
	a.out.end(summary{Status: "restored", Bytes: optional(v.Length.Int64())},
		fmt.Sprintf("Status: RESTORED to %s   %s, as it was %s", file, volume(v), period(v)))
	return nil
}

var errOtherBytes = errors.New("the file exists and has other bytes, so it is not overwritten")

// writeCopy writes bytes to a new file. It returns an error if the file exists with other bytes.
func writeCopy(ctx context.Context, file string, open func() (io.ReadCloser, error)) error {
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		return expectSameBytes(file, open)
	}
	return writeWhole(ctx, file, func(w io.Writer) (err error) {
		r, err := open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		_, err = io.Copy(w, r)
		return err
	})
}

func expectSameBytes(file string, open func() (io.ReadCloser, error)) error {
	there, err := hashOf(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return err
	}
	wanted, err := hashOf(open)
	if err == nil && there != wanted {
		err = fmt.Errorf("%s: %w", file, errOtherBytes)
	}
	return err
}

func hashOf(open func() (io.ReadCloser, error)) (sum [sha256.Size]byte, err error) {
	r, err := open()
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	_, err = io.Copy(h, r)
	h.Sum(sum[:0])
	return sum, err
}

func period(v *mirror.Version) string {
	if v.Until.IsZero() {
		return "now"
	}
	return "until " + v.Until.Format(time.RFC3339)
}

type reversion struct {
	a                                 *app
	created, updated, deleted, failed int64
	again                             int64 // number of resources that undo makes stay in an earlier state again (restore --keep)
	released                          int64 // number of resources that no longer stay in an earlier state
}

func (r *reversion) step(step mirror.Reversal, err error) {
	if err != nil {
		r.failed++
		r.a.out.warn(warningRecord{URI: step.URI, Message: fmt.Sprintf("%s is not restored: %v", step.URI, err)})
		return
	}
	if step.SetURI == mirror.KeptSet && !step.Remove {
		r.again++
	}
	if step.Stays && step.Remove {
		r.released++
		return
	}
	change := resourcesync.Updated
	switch {
	case step.Remove:
		change = resourcesync.Deleted
		r.deleted++
	case step.Why == resourcesync.Deleted && !step.Stays:
		change = resourcesync.Created
		r.created++
	default:
		r.updated++
	}
	rec := changeRecord{Action: string(change), URI: step.URI, Path: step.Path, Set: step.SetURI, Bytes: optional(step.Length.Int64())}
	if !step.Remove {
		rec.Via = "local"
	}
	r.a.out.record(&rec)
	r.a.out.line("%s %s", changeMark(change), printable(cmp.Or(step.Path, step.URI)))
}

type reverting struct {
	what         string // restore, or undo
	dir, state   string // the directory of the mirror, and the directory of the mirror's state
	keep, dryRun bool
}

func (a *app) beginRevert(ctx context.Context, m *mirror.Mirror, how reverting) (*runLog, error) {
	log := a.newRun(how.what, "", how.dir)
	log.start(ctx, m, how.dir, how.state)
	return log, m.BeginRun(ctx, how.what, log.ID())
}

func (a *app) revert(ctx context.Context, m *mirror.Mirror, steps iter.Seq2[mirror.Reversal, error], how reverting) (err error) {
	r := &reversion{a: a}
	if how.dryRun {
		for step, err := range steps {
			if err != nil {
				return err
			}
			r.step(step, step.Refused())
		}
		r.end("plan", fmt.Sprintf("Status: PLAN (to create=%d, to update=%d, to delete=%d, left alone=%d)", r.created, r.updated, r.deleted, r.failed))
		return nil
	}
	log, err := a.beginRevert(ctx, m, how)
	if err != nil {
		return err
	}
	defer func() { log.end(ctx, err) }()
	err = m.Revert(ctx, steps, mirror.RevertOptions{Keep: how.keep, Done: r.step})
	log.recordChanged(ctx, m)
	if err != nil {
		return err
	}
	run, err := m.Run(ctx)
	if err != nil {
		return err
	}
	status, after := "restored", ""
	if r.failed > 0 || a.code == exitPartial {
		status = "partial"
	}
	if run != 0 {
		after = fmt.Sprintf("   to undo this: instep undo %s %d", how.dir, run)
		if !how.keep && r.created+r.updated+r.deleted+r.released > r.again {
			a.out.say("The next sync brings back the Source's state; restore --keep keeps an earlier one.")
		}
		if !how.keep && r.again > 0 {
			a.out.say("%s kept again, as by restore --keep, until restore --release", counted(r.again, "resource"))
		}
	}
	r.end(status, fmt.Sprintf("Status: %s (created=%d, updated=%d, deleted=%d, left alone=%d)%s", words[status], r.created, r.updated, r.deleted, r.failed, after))
	return nil
}

func (r *reversion) end(status, line string) {
	if r.failed > 0 {
		r.a.code = exitPartial
	}
	if r.released > 0 {
		r.a.out.say("restore --keep ends for %s", counted(r.released, "resource"))
	}
	r.a.out.end(summary{
		Status: status, Created: num(r.created), Updated: num(r.updated), Deleted: num(r.deleted), Failed: num(r.failed), ExitCode: r.a.code,
	}, line)
}
