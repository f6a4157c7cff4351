package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"instep/destination"
	"instep/internal/catalog"
	"instep/mirror"
)

// mendable is an error about a mirror that does not match its state, with the command
// that repairs it.
type mendable struct {
	error
	hint string
}

func (e *mendable) Unwrap() error { return e.error }

// mend adds to err the command that repairs its cause, if there is one.
func (s *syncer) mend(err error) error {
	if err == nil || errors.As(err, new(*mendable)) {
		return err
	}
	state := s.f.state
	inside := mirror.StateDir(s.dir, state) == mirror.StateDir(s.dir, "")
	var hint string
	switch {
	case errors.Is(err, mirror.ErrUsedCatalog) && !inside, errors.Is(err, mirror.ErrOtherCatalog) && !inside:
		hint = "is its disk mounted, and --state the right one? To begin anew, with a state of its own: " + s.adoptCommand(freeName(state))
	case errors.Is(err, mirror.ErrLostCatalog):
		hint = "is --state the right one? If the catalog is lost, this begins a new one; what is there and verified is not fetched again: " + s.adoptCommand(state)
	case errors.Is(err, catalog.ErrDamaged), errors.Is(err, mirror.ErrOtherCatalog):
		hint = "restore the catalog from a backup, or begin a new one; what is there and verified is not fetched again, and the old one is kept: " + s.adoptCommand(state)
	case errors.Is(err, mirror.ErrNotEmpty):
		hint = "mirror into an empty or a new directory, or let --adopt take over the files that are there: " + s.adoptCommand(state)
	default:
		return err
	}
	return &mendable{err, hint}
}

// adoptCommand returns the present command with --adopt, and with a state directory.
func (s *syncer) adoptCommand(state string) string {
	words := []string{"instep", "sync", "--adopt"}
	for _, flag := range s.a.given {
		name, _, _ := strings.Cut(flag, "=")
		if !slices.Contains([]string{"--adopt", "--state", "--dry-run"}, name) {
			words = append(words, shellLine(flag))
		}
	}
	if state != "" {
		words = append(words, "--state", shellLine(state))
	}
	return strings.Join(append(words, shellLine(s.source), shellLine(s.dir)), " ")
}

// freeName returns an unused directory name next to an existing directory.
func freeName(dir string) string {
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s-%d", filepath.Clean(dir), n)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// glance marks resources whose files other programs deleted or changed, so that they
// are fetched again.
func (s *syncer) glance(ctx context.Context, m *mirror.Mirror) error {
	n, err := m.Glance(ctx)
	if err == nil && n > 0 {
		s.a.out.warn(warningRecord{
			Message: fmt.Sprintf("%s changed since being stored: to be compared with the Source again", counted(int64(n), "file")),
			Hint:    fmt.Sprintf("if others may be, too: instep audit %s %s", shellLine(s.source), shellLine(s.dir)),
		})
	}
	return err
}

// explainState reports how a run dealt with files that did not match the catalog.
func (s *syncer) explainState(t *totals) {
	out := s.a.out
	if s.aside != "" {
		out.warn(warningRecord{Path: s.aside, Message: "the catalog could not be used, and is now " + printable(s.aside)})
	}
	if t.Taken > 0 {
		out.say("taken over: %s already in the directory, with the bytes of the Source's resources", counted(int64(t.Taken), "file"))
	}
	occupied := 0
	for _, f := range t.Failures {
		if errors.Is(f.Err, destination.ErrOccupied) {
			occupied++
		}
	}
	if occupied > 0 {
		out.warn(warningRecord{
			Message: fmt.Sprintf("%s not stored: other files have the paths", counted(int64(occupied), "resource")),
			Hint:    "move those files elsewhere, and sync again; or have them put into the trash: " + s.adoptCommand(s.f.state),
		})
	}
}
