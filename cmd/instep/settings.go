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

// The flags whose values are stored with a mirror: by the run that creates it, and
// later by --remember. Not stored are consents (--max-delete, --adopt,
// --accept-rollback, --allow-*), limits of one run (--max-time, --max-transfer) and
// properties of the machine.
var (
	filterFlags = []string{"set", "include", "exclude", "type", "only-collection", "only-profile", "accept", "where"}
	plainFlags  = []string{
		"with-metadata", "versions", "keep-versions", "keep-log", "keep-deleted", "strict", "max-age", "accept-gap", "prefer", "duplicates", "no-patches", "baseline-every", "workers", "rate", "bwlimit",
		"max-document", "ore",
	}
	// fileFlags name files that determine trust and credentials.
	fileFlags = []string{"netrc", "bearer-file", "header-file", "cert", "key", "ca"}
	keptFlags = slices.Concat(filterFlags, plainFlags, fileFlags)
)

// settings are the values that a run uses: those of its flags, and for flags that are
// not given those stored with the mirror.
type settings struct {
	cmd      *cobra.Command
	remember bool
	origin   string // origin of SOURCE; "" if it is a file
	kept     mirror.Settings
	recorded bool      // the mirror was written by a version that stores settings
	before   time.Time // time of the previous sync, or now; used only if nothing is stored
}

// listValue is the value of a flag that can be given several times.
type listValue interface {
	GetSlice() []string
	Replace([]string) error
}

// useSettings sets the flags of cmd that are not given to the values stored with the
// mirror m, which was opened with o. Values that it cannot use are reported or refused,
// never skipped silently.
func (a *app) useSettings(ctx context.Context, cmd *cobra.Command, source string, o mirror.Options, m *mirror.Mirror) (*settings, error) {
	kept, recorded, err := m.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if kept.Values == nil {
		kept.Values = map[string][]string{}
	}
	s := &settings{cmd: cmd, kept: kept, recorded: recorded}
	s.remember = s.isOn("remember")
	if u, err := fetch.Parse(source); err == nil {
		s.origin = fetch.Origin(u)
	}
	if !s.recorded {
		if err := s.readBefore(o, a.now()); err != nil {
			return nil, err
		}
	}
	if strange := s.strange(); len(strange) > 0 {
		return nil, usagef("this mirror keeps settings that this version does not know (--%s): use a newer version of instep", strings.Join(strange, ", --"))
	}
	for _, name := range slices.Concat(filterFlags, plainFlags) {
		if err := s.use(name); err != nil {
			return nil, err
		}
	}
	a.tellSettings(s)
	return s, a.useFiles(s, o)
}

// isOn reports whether a boolean flag is set.
func (s *settings) isOn(name string) bool {
	f := s.cmd.Flags().Lookup(name)
	return f != nil && f.Value.String() == "true"
}

// readBefore finds the time of the last recorded sync; now if there is none.
func (s *settings) readBefore(o mirror.Options, now time.Time) error {
	all, err := listRuns(o.Dir, o.State)
	if errors.Is(err, mirror.ErrWrongStore) {
		err = nil // the mirror does not exist yet
	}
	for i := range all {
		if all[i].Command == "sync" && all[i].Begun.After(s.before) {
			s.before = all[i].Begun
		}
	}
	if s.before.IsZero() {
		s.before = now
	}
	return err
}

// strange returns the names of stored settings that this version does not know.
func (s *settings) strange() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.kept.Values)), func(name string) bool { return slices.Contains(keptFlags, name) })
}

// use sets a flag to its stored value if the flag is not given.
func (s *settings) use(name string) error {
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
		return usagef("this mirror keeps --%s=%s, which cannot be used: %v", name, strings.Join(values, ","), err)
	}
	return nil
}

// useFiles sets the flags that name files to their stored values if that is safe: for
// the same origin, and if nobody else can have written the files.
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
	why, state := "", mirror.StateDir(o.Dir, o.State)
	switch {
	case s.origin == "" || s.origin != s.kept.Origin:
		why = "they are for " + s.kept.Origin
	case !isOurs(state) || !isOurs(filepath.Join(state, "catalog.db")):
		why = "the mirror's state is not yours alone: another user may have named them"
	}
	if why != "" {
		a.out.warn(warningRecord{Message: fmt.Sprintf("the files kept with the mirror (--%s) are not used: %s", strings.Join(files, ", --"), why), Hint: "give the flags again"})
		return nil
	}
	for _, name := range files {
		if err := s.use(name); err != nil {
			return err
		}
	}
	return nil
}

// tellSettings prints the stored filters that a run uses, and those that it overrides.
func (a *app) tellSettings(s *settings) {
	var used, instead []string
	for _, name := range keptFlags {
		f, kept := s.cmd.Flags().Lookup(name), s.kept.Values[name]
		switch {
		case f == nil || len(kept) == 0:
		case f.Changed && !slices.Equal(kept, s.given(name)):
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
		tell("kept with the mirror: " + strings.Join(used, " "))
	}
	if len(instead) > 0 && !s.remember {
		tell("for this run only, instead of what is kept: " + strings.Join(instead, " "))
	}
}

// asFlags formats values as on the command line.
func asFlags(name string, values []string) string {
	given := make([]string, len(values))
	for i, v := range values {
		given[i] = "--" + name + "=" + shellLine(v)
	}
	return strings.Join(given, " ")
}

// given returns the values of a given flag in the stored form: files as absolute paths.
// It returns none if the flag is empty.
func (s *settings) given(name string) (values []string) {
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
			continue // a pipe, for example, which will not exist in the next run
		}
		if whole, err := filepath.Abs(v); err == nil {
			files = append(files, whole)
		}
	}
	return files
}

// withoutEmpty removes empty texts, since an empty value selects nothing.
func withoutEmpty(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(v string) bool { return v == "" })
}

// next returns the settings to store for later runs. With all, every given flag
// replaces the stored value.
func (s *settings) next(all bool) mirror.Settings {
	next := mirror.Settings{Values: maps.Clone(s.kept.Values), Origin: s.kept.Origin}
	for _, name := range keptFlags {
		f := s.cmd.Flags().Lookup(name)
		if !all || f == nil || !f.Changed {
			continue
		}
		delete(next.Values, name)
		if values := s.given(name); len(values) > 0 {
			next.Values[name] = values
			if slices.Contains(fileFlags, name) {
				next.Origin = s.origin
			}
		}
	}
	return next
}

// keep stores the settings of a run with a mirror: of the run that created it, and of one with
// --remember.
func (s *settings) keep(ctx context.Context, m *mirror.Mirror) error {
	bound, err := m.Bound(ctx)
	if err != nil || !s.remember && (s.recorded || bound) {
		return err
	}
	next := s.next(true)
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

// keepRetention chooses how long earlier states are kept in a mirror of an earlier
// version, which stored no settings. A run that keeps them longer than the default sets
// that value permanently. Otherwise, if there are states older than the default allows,
// an earlier run must have been told to keep them: they stay until the user decides.
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
		return false, m.KeepSettings(ctx, s.next(false))
	}
	oldest, ok, err := m.OldestVersion(ctx)
	if err != nil {
		return false, err
	}
	if forever = ok && oldest.Before(s.before.UTC().Truncate(24*time.Hour).AddDate(0, 0, -defaultKeepDays)); forever {
		s.kept.Values["keep-versions"] = []string{"forever"}
		a.out.warn(warningRecord{
			Message: fmt.Sprintf("earlier states since %s are kept here, so an earlier run was given --keep-versions: they stay, and so do others from now on", oldest.Format(time.DateOnly)),
			Hint:    fmt.Sprintf("to keep them for %d days, sync once with --keep-versions %d --remember", defaultKeepDays, defaultKeepDays),
		})
	}
	s.recorded = true
	return forever, m.KeepSettings(ctx, s.next(false))
}

// settingRows returns the stored settings, one per row, in a fixed order.
func settingRows(kept mirror.Settings) (rows []statusRecord) {
	for _, name := range slices.Sorted(maps.Keys(kept.Values)) {
		for _, v := range kept.Values[name] {
			rows = append(rows, statusRecord{Key: name, Value: v, Origin: keptOrigin})
		}
	}
	return rows
}

// keptOrigin describes the origin of a stored value.
const keptOrigin = "kept with the mirror"
