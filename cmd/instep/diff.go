package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/discover"
	"instep/harvest"
	"instep/internal/past"
	"instep/mirror"
	"instep/resourcesync"
)

const diffHelp = `Diff compares two moments of a mirror in a directory, or of a Source, and prints each resource
that differs:

    +  created    ~  updated    -  deleted

For a mirror, diff reads the history of the mirror (see "instep history"). For a Source, it
reads present and archived Resource Lists and Change Lists, but no resources. Two states of a
resource are the same if a digest that both have proves it. Without such a digest diff compares
length and lastmod.

Without --to the second moment is now. A time is a date, which means its beginning in UTC, or a
datetime with a time zone, such as 2026-03-01T12:00:00Z.

Exit code 0 if there is no difference, 3 if there is one. Exit code 1 if the history or the
documents do not cover one of the moments. If they do not cover it for some of the sets, diff
compares the other sets, and the exit code is 4.`

type diffFlags struct {
	sourceFlags
	from, to string
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff DIR|SOURCE",
		Short: "show what changed between two moments",
		Long:  diffHelp,
		Example: `  instep diff ./mirror --from 2026-03-01
  instep diff ./mirror --from 2026-03-01 --to 2026-04-01
  instep diff https://museum.example.org/ --from 2026-03-01T12:00:00Z --to 2026-03-02T12:00:00Z`,
		Args: exactArgs("DIR|SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.given = a.givenFlags(cmd)
			return a.diff(cmd.Context(), args[0], &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "`TIME` of the first moment")
	fs.StringVar(&f.to, "to", "", "`TIME` of the second moment (default: the present)")
	fs.StringArrayVar(&f.sets, "set", nil, "compare only the set with this `NAME` or Capability List URI (repeatable; default: all)")
	fs.StringVar(&f.maxDocument, "max-document", "", maxDocumentUsage)
	stateFlag(cmd, &f.state)
	f.workers = 4
	f.registerHosts(cmd)
	return cmd
}

type differ struct {
	a                               *app
	older, newer                    time.Time // the two compared moments; if newer is zero, the second moment is the present
	same, created, updated, deleted int64
	sets, unknown                   int   // number of compared sets, and of sets whose state at one of the moments is unknown
	err                             error // error for the first set whose state is unknown
}

func (a *app) diff(ctx context.Context, what string, f *diffFlags) error {
	d := &differ{a: a}
	var err error
	if d.older, err = a.parseMoment("from", f.from); err != nil {
		return err
	}
	if d.newer, err = a.parseMoment("to", f.to); err != nil {
		return err
	}
	switch {
	case f.from == "":
		return usagef("--from, the first of the two moments, is missing")
	case f.to != "" && d.newer.Before(d.older):
		return usagef("--to %s is before --from %s", f.to, f.from)
	}
	isMirror, err := mirror.IsMirror(what)
	if err != nil {
		return err
	}
	if isMirror || f.state != "" {
		err = d.compareMirror(ctx, what, f)
	} else {
		err = d.compareSource(ctx, what, f)
	}
	if err != nil {
		return err
	}
	return d.end()
}

func (d *differ) compareMirror(ctx context.Context, dir string, f *diffFlags) (err error) {
	m, err := d.a.openPast(ctx, dir, f.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	sets, err := chosenSets(ctx, m, f.sets)
	if err != nil {
		return err
	}
	known, ok, err := m.Known(ctx)
	if err != nil {
		return err
	}
	if !ok || d.older.Before(known) {
		return &unknownPastError{dir, known, d.older}
	}
	for _, set := range sets {
		before := statesOf(m.AsOf(ctx, set, d.older))
		after := statesOf(m.AsOf(ctx, set, d.newer))
		if d.newer.IsZero() {
			after = membersOf(m.Members(ctx, set))
		}
		if err := d.compare(ctx, set, before, after); err != nil {
			return err
		}
	}
	return nil
}

type unknownPastError struct {
	dir       string
	known, at time.Time
}

func (e *unknownPastError) Error() string {
	if e.known.IsZero() {
		return fmt.Sprintf("the state of %s at %s is unknown: the mirror has no history yet", e.dir, stamp(e.at))
	}
	return fmt.Sprintf("the state of %s at %s is unknown: the mirror has a history since %s", e.dir, stamp(e.at), stamp(e.known))
}

func statesOf(versions iter.Seq2[mirror.Version, error]) iter.Seq2[past.State, error] {
	return func(yield func(past.State, error) bool) {
		for v, err := range versions {
			if !yield(stateOfHeld(&v.Held), err) || err != nil {
				return
			}
		}
	}
}

func membersOf(members iter.Seq2[destination.Held, error]) iter.Seq2[past.State, error] {
	return func(yield func(past.State, error) bool) {
		for h, err := range members {
			if err == nil && !h.Stored {
				continue
			}
			if !yield(stateOfHeld(&h), err) || err != nil {
				return
			}
		}
	}
}

func stateOfHeld(h *destination.Held) past.State {
	return past.State{URI: h.URI, Path: h.Path, LastMod: h.LastMod, Length: h.Length, Digests: h.Digests}
}

func (d *differ) compareSource(ctx context.Context, uri string, f *diffFlags) error {
	var net traffic
	client, uri, done, err := d.a.reach(ctx, uri, &f.sourceFlags, &net)
	if err != nil {
		return err
	}
	defer done()
	src := &past.Source{URI: uri, Client: client, AllowOrigins: f.allowOrigin}
	src.Tell = func(q resourcesync.Quirk, set, text string) {
		d.a.out.warn(warningRecord{Message: text, Set: set, Quirk: int(q)})
	}
	sets, err := src.Sets(ctx, withoutEmpty(f.sets))
	if err != nil {
		return err
	}
	for _, set := range sets {
		if err := d.compareSet(ctx, src, set); err != nil {
			return err
		}
	}
	return nil
}

// compareSet returns nil if the state at one of the moments is unknown, so that the other sets
// are still compared.
func (d *differ) compareSet(ctx context.Context, src *past.Source, set discover.Set) error {
	err := d.compare(ctx, set.URI, src.At(ctx, set, d.older), src.At(ctx, set, d.newer))
	if _, ok := errors.AsType[*harvest.UncoveredError](err); !ok && !harvest.OfSource(err) || ctx.Err() != nil {
		return err
	}
	d.unknown++
	if d.err == nil {
		d.err = err
	} else {
		d.a.out.warn(warningRecord{Message: err.Error(), Set: set.URI})
	}
	return nil
}

func (d *differ) compare(ctx context.Context, set string, before, after iter.Seq2[past.State, error]) error {
	d.sets++
	for diff, err := range past.Compare("", before, after) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		d.show(set, &diff)
	}
	return nil
}

func (d *differ) show(set string, diff *past.Difference) {
	switch diff.Change {
	case resourcesync.Created:
		d.created++
	case resourcesync.Deleted:
		d.deleted++
	case resourcesync.Updated:
		d.updated++
	default:
		d.same++
		return
	}
	s := diff.State()
	r := changeRecord{Action: string(diff.Change), Set: set, URI: s.URI, Path: s.Path}
	if diff.After != nil {
		r.Bytes, r.Hash = optional(s.Length.Int64()), s.Digests.String()
	}
	if diff.Before != nil {
		r.Was = diff.Before.Digests.String()
	}
	d.a.out.record(&r)
	d.a.out.line("%s %s", changeMark(diff.Change), printable(cmp.Or(s.Path, s.URI)))
}

func (d *differ) end() error {
	switch {
	case d.sets > 0 && d.unknown == d.sets:
		return d.err
	case d.unknown > 0:
		d.a.out.warn(warningRecord{Message: d.err.Error()})
	}
	status := "same"
	if d.created+d.updated+d.deleted > 0 {
		status, d.a.code = "different", exitDifferences
	}
	if d.unknown > 0 {
		status, d.a.code = "partial", exitPartial
	}
	s := summary{Status: status, Same: num(d.same), Created: num(d.created), Updated: num(d.updated), Deleted: num(d.deleted), ExitCode: d.a.code}
	d.a.out.end(s, fmt.Sprintf("Status: %s (same=%d, created=%d, updated=%d, deleted=%d)", words[status], d.same, d.created, d.updated, d.deleted))
	return nil
}
