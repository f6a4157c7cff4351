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
	"instep/discover"
	"instep/internal/catalog"
	"instep/mirror"
)

// hintedError is an error with a hint that depends on the present command.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// mend adds a hint to an error about the state of the mirror: the command that repairs this
// state.
func (s *syncer) mend(err error) error {
	if err == nil || errors.As(err, new(*hintedError)) {
		return err
	}
	state := s.f.state
	inside := mirror.StateDir(s.dir, state) == mirror.StateDir(s.dir, "")
	var hint string
	switch {
	case errors.Is(err, mirror.ErrUsedCatalog) && !inside, errors.Is(err, mirror.ErrOtherCatalog) && !inside:
		hint = "is the mirror's disk mounted, and the directory in --state right? To begin a new catalog in another directory: " + s.adoptCommand(unusedName(state))
	case errors.Is(err, mirror.ErrLostCatalog):
		hint = fmt.Sprintf("is the directory in --state right? If the catalog is lost, begin a new one (%s): %s", notAgain, s.adoptCommand(state))
	case errors.Is(err, catalog.ErrDamaged), errors.Is(err, mirror.ErrOtherCatalog):
		hint = fmt.Sprintf("restore the catalog from a backup, or begin a new one (%s, and the old catalog is kept): %s", notAgain, s.adoptCommand(state))
	case errors.Is(err, mirror.ErrNotEmpty):
		hint = "mirror into an empty or a new directory, or let --adopt take over the files that are there: " + s.adoptCommand(state)
	default:
		return err
	}
	return &hintedError{err, hint}
}

// mendMoved handles the error that the URL of an existing mirror's Source leads to another origin.
// It adds a hint that says how to mirror the new address without fetching everything again.
func mendMoved(ctx context.Context, m *mirror.Mirror, err error) error {
	de, ok := errors.AsType[*discover.Error](err)
	if bound, read := m.Bound(ctx); !ok || !bound || read != nil {
		return err
	}
	if _, failed := requestSentence(de); failed {
		return err
	}
	if _, foreign := foreignAttempt(de); foreign == nil {
		return err
	}
	return &hintedError{err, "if the Source of this mirror has moved to that URL, give the URL and another directory: " + movedSource}
}

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

func unusedName(dir string) string {
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s-%d", filepath.Clean(dir), n)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// findTouched checks some files of the mirror, and marks the resources of files that other
// programs deleted or changed. The run fetches these resources again.
func (s *syncer) findTouched(ctx context.Context, m *mirror.Mirror) error {
	n, err := m.Glance(ctx)
	if err == nil && n > 0 {
		s.a.out.warn(warningRecord{
			Message: fmt.Sprintf("%s of the mirror changed on disk; this run compares each changed file with the Source again", counted(n, "file")),
			Hint:    fmt.Sprintf("if other files may have changed too: instep audit %s %s", shellLine(s.source), shellLine(s.dir)),
		})
	}
	return err
}

func (s *syncer) explainState(t *totals) {
	out := s.a.out
	if s.aside != "" {
		out.warn(warningRecord{Path: s.aside, Message: fmt.Sprintf("the catalog could not be used, and was renamed to %s", printable(s.aside))})
	}
	if t.Taken > 0 {
		out.say("taken over: %s in the directory that already had the bytes of the Source's resources", counted(t.Taken, "file"))
	}
	occupied := int64(0)
	for _, f := range t.Failures {
		if errors.Is(f.Err, destination.ErrOccupied) {
			occupied++
		}
	}
	if occupied > 0 {
		out.warn(warningRecord{
			Message: fmt.Sprintf("%s not stored, because other files have their paths", counted(occupied, "resource")),
			Hint:    "move those files elsewhere and sync again, or let sync move them to the trash: " + s.adoptCommand(s.f.state),
		})
	}
}
