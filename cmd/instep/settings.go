package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"instep/fetch"
	"instep/mirror"
)

// The values of these flags are stored with a mirror, by the run that creates the mirror and
// by runs with --remember. Consents (--max-delete, --adopt, --accept-rollback, --allow-*),
// limits of one run (--max-time, --max-transfer) and properties of the machine are not stored.
var (
	filterFlags = []string{"set", "include", "exclude", "type", "only-collection", "only-profile", "accept", "where"}
	plainFlags  = []string{
		"with-metadata", "versions", "keep-versions", "keep-log", "keep-deleted", "strict", "max-age", "accept-gap", "prefer", "duplicates", "no-patches", "baseline-every", "workers", "rate", "bwlimit",
		"max-document", "ore",
	}
	// fileFlags are the flags whose values are names of files that determine trust and
	// credentials.
	fileFlags = []string{"netrc", "bearer-file", "header-file", "cert", "key", "ca"}
	keptFlags = slices.Concat(filterFlags, plainFlags, fileFlags)
)

// settings are the values of the flags of a run. A flag that is not given has the value stored
// with the mirror.
type settings struct {
	cmd           *cobra.Command
	remember      bool
	origin        string // the origin of SOURCE; "" if SOURCE is a file
	kept          mirror.Settings
	recorded      bool      // whether settings were stored with the mirror before this run; earlier versions of instep stored none
	previousStart time.Time // start of the previous sync, or the present if no sync is recorded; set only if no settings were stored
}

// listValue is the value of a flag that can be given several times.
type listValue interface {
	GetSlice() []string
	Replace([]string) error
}

// useSettings sets each flag that is not on the command line to its value stored with the mirror m.
// It warns about stored values that it does not use. The mirror was opened with the options o.
func (a *app) useSettings(ctx context.Context, cmd *cobra.Command, source string, o mirror.Options, m *mirror.Mirror) (*settings, error) {
	kept, recorded, err := a.storedSettings(ctx, m)
	if err != nil {
		return nil, err
	}
	if kept.Values == nil {
		kept.Values = map[string][]string{}
	}
	s := &settings{cmd: cmd, kept: kept, recorded: recorded}
	s.remember, _ = cmd.Flags().GetBool("remember") // the error is ignored, because the command audit does not have this flag
	if u, err := fetch.Parse(source); err == nil {
		s.origin = fetch.Origin(u)
	}
	if !s.recorded {
		if err := s.readPreviousStart(o, a.now()); err != nil {
			return nil, err
		}
	}
	if strange := s.unknownNames(); len(strange) > 0 {
		return nil, usagef("the settings stored with this mirror include some that this version does not know (--%s): use a newer version of instep", strings.Join(strange, ", --"))
	}
	for _, name := range slices.Concat(filterFlags, plainFlags) {
		if err := s.applyStored(name); err != nil {
			return nil, err
		}
	}
	a.tellSettings(s)
	return s, a.useFiles(s, o)
}

// storedSettings returns the settings stored with a mirror, and hides their passwords in what is
// written from now on.
func (a *app) storedSettings(ctx context.Context, m *mirror.Mirror) (kept mirror.Settings, recorded bool, err error) {
	kept, recorded, err = m.Settings(ctx)
	a.hideSecretsIn(slices.Concat(slices.Collect(maps.Values(kept.Values))...)...)
	return kept, recorded, err
}

// readPreviousStart sets previousStart to the start of the last recorded sync, or to now if none
// is recorded.
func (s *settings) readPreviousStart(o mirror.Options, now time.Time) error {
	all, err := listRuns(o.Dir, o.State)
	if errors.Is(err, mirror.ErrWrongStore) {
		err = nil // no error, because the mirror may not exist yet and then has no runs
	}
	for i := range all {
		if all[i].Command == "sync" && all[i].Begun.After(s.previousStart) {
			s.previousStart = all[i].Begun
		}
	}
	if s.previousStart.IsZero() {
		s.previousStart = now
	}
	return err
}

func (s *settings) unknownNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.kept.Values)), func(name string) bool { return slices.Contains(keptFlags, name) })
}

func (s *settings) applyStored(name string) error {
	f, values := s.cmd.Flags().Lookup(name), s.kept.Values[name]
	if f == nil || f.Changed || len(values) == 0 {
		return nil
	}
	var err error
	if list, ok := f.Value.(listValue); ok {
		err = list.Replace(values)
	} else {
		err = f.Value.Set(values[0])
	}
	if err != nil {
		return usagef("the stored setting --%s=%s of this mirror cannot be used: %v", name, strings.Join(values, ","), err)
	}
	return nil
}

// useFiles uses stored names of files only if the Source has the same origin as before, and only
// the current user can write the mirror's state. Else others could choose whom a run trusts.
func (a *app) useFiles(s *settings, o mirror.Options) error {
	var files []string
	for _, name := range fileFlags {
		if f := s.cmd.Flags().Lookup(name); f != nil && !f.Changed && len(s.kept.Values[name]) > 0 {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil
	}
	reason, state := "", mirror.StateDir(o.Dir, o.State)
	switch {
	case s.origin == "" || s.origin != s.kept.Origin:
		reason = "they are for the Source at " + s.kept.Origin
	case !isOurs(state) || !isOurs(filepath.Join(state, "catalog.db")):
		reason = "another user can write the mirror's state, and may have named the files"
	}
	if reason != "" {
		a.out.warn(warningRecord{Message: fmt.Sprintf("the files named by the mirror's settings (--%s) are not used: %s", strings.Join(files, ", --"), reason), Hint: "give these flags again"})
		return nil
	}
	for _, name := range files {
		if err := s.applyStored(name); err != nil {
			return err
		}
		if _, err := os.Stat(s.kept.Values[name][0]); err != nil {
			return &hintedError{usagef("--%s: %v", name, err), fmt.Sprintf("the mirror has stored this path; if the file has moved: sync --%s FILE --remember", name)}
		}
	}
	return nil
}

func (a *app) tellSettings(s *settings) {
	var used, instead []string
	for _, name := range keptFlags {
		f, kept := s.cmd.Flags().Lookup(name), s.kept.Values[name]
		switch {
		case f == nil || len(kept) == 0:
		case f.Changed && !slices.Equal(kept, s.valuesToStore(name)):
			instead = append(instead, asFlags(name, kept))
		case !f.Changed && slices.Contains(filterFlags, name):
			used = append(used, asFlags(name, kept))
		}
	}
	tell := func(text string) {
		a.out.record(&statusRecord{Message: text})
		a.out.say("%s", text)
	}
	if len(used) > 0 {
		tell("settings kept with the mirror: " + strings.Join(used, " "))
	}
	if len(instead) > 0 && !s.remember {
		tell("this run does not use these stored settings: " + strings.Join(instead, " "))
	}
}

func asFlags(name string, values []string) string {
	given := make([]string, len(values))
	for i, v := range values {
		given[i] = "--" + name + "=" + shellLine(v)
	}
	return strings.Join(given, " ")
}

// valuesToStore returns the values of a flag that are stored with a mirror. Names of files become
// absolute. Empty values are left out, and so are files that the next run could not read again.
func (s *settings) valuesToStore(name string) (values []string) {
	f := s.cmd.Flags().Lookup(name)
	values = []string{f.Value.String()}
	if list, ok := f.Value.(listValue); ok {
		values = list.GetSlice()
	}
	values = withoutEmpty(values)
	if !slices.Contains(fileFlags, name) {
		return values
	}
	var files []string
	for _, v := range values {
		info, err := os.Stat(v)
		if err != nil || !info.Mode().IsRegular() {
			continue // a pipe, for example, does not exist in the next run
		}
		if path, err := filepath.Abs(v); err == nil {
			files = append(files, path)
		}
	}
	return files
}

// withoutEmpty removes empty values, because a filter with an empty value, such as --include "",
// filters nothing.
func withoutEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(v string) bool { return v == "" })
}

func (s *settings) settingsToStore() mirror.Settings {
	next := mirror.Settings{Values: maps.Clone(s.kept.Values), Origin: s.kept.Origin}
	for _, name := range keptFlags {
		f := s.cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		delete(next.Values, name)
		if values := s.valuesToStore(name); len(values) > 0 {
			next.Values[name] = values
			if slices.Contains(fileFlags, name) {
				next.Origin = s.origin
			}
		}
	}
	return next
}

// store stores the settings if the run creates the mirror or has the flag --remember.
func (s *settings) store(ctx context.Context, m *mirror.Mirror) error {
	bound, err := m.Bound(ctx)
	if err != nil || !s.remember && (s.recorded || bound) {
		return err
	}
	next := s.settingsToStore()
	if err := m.KeepSettings(ctx, next); err != nil {
		return err
	}
	if f := s.cmd.Flags().Lookup("keep-versions"); s.remember && f.Changed {
		if err := m.AcceptClock(ctx); err != nil {
			return err
		}
	}
	s.kept, s.recorded, s.remember = next, true, false
	return nil
}

// keepRetention is for a mirror without stored settings, made by an earlier version of instep. It
// stores --keep-versions if the value is above the default. Without the flag it checks whether the
// mirror has older states than the default allows. If so, an earlier run had the flag, and all
// states are kept until the user decides.
func (a *app) keepRetention(ctx context.Context, m *mirror.Mirror, s *settings) (forever bool, err error) {
	if s.recorded {
		return false, nil
	}
	f := s.cmd.Flags().Lookup("keep-versions")
	if f.Changed {
		keep, err := parseKeepVersions(f.Value.String())
		if err != nil || !keep.forever && keep.days <= defaultKeepDays {
			return false, err
		}
		s.kept.Values["keep-versions"] = []string{f.Value.String()}
		s.recorded = true
		return false, m.KeepSettings(ctx, s.kept)
	}
	oldest, ok, err := m.OldestVersion(ctx)
	if err != nil {
		return false, err
	}
	if forever = ok && oldest.Before(s.previousStart.UTC().Truncate(24*time.Hour).AddDate(0, 0, -defaultKeepDays)); forever {
		s.kept.Values["keep-versions"] = []string{"forever"}
		a.out.warn(warningRecord{
			Message: fmt.Sprintf("earlier states since %s are kept here, so an earlier run had --keep-versions: from now on all earlier states are kept", oldest.Format(time.DateOnly)),
			Hint:    fmt.Sprintf("to keep earlier states for %d days, sync once with --keep-versions %d --remember", defaultKeepDays, defaultKeepDays),
		})
	}
	s.recorded = true
	return forever, m.KeepSettings(ctx, s.kept)
}

func settingRows(kept mirror.Settings) (rows []statusRecord) {
	for _, name := range slices.Sorted(maps.Keys(kept.Values)) {
		for _, v := range kept.Values[name] {
			rows = append(rows, statusRecord{Key: name, Value: v, Origin: "kept with the mirror"})
		}
	}
	return rows
}
