package mirror

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"instep/blob"
	"instep/internal/spool"
)

// newTrashDir returns the path for a new directory in the trash, whose name has the
// given time and a number.
func (m *Mirror) newTrashDir(ctx context.Context, at time.Time) (string, error) {
	stem := trashKey + "/" + at.UTC().Format("2006-01-02/150405")
	if m.flat != nil { // a random name, since the search for a free number would be slow in the flat layout
		return stem + "-" + rand.Text(), nil
	}
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		room := fmt.Sprintf("%s-%d", stem, n)
		if k, err := m.disk.lstat(room); err != nil || k == absent {
			return room, err
		}
	}
}

// PurgeTrash removes earlier states, with their bytes, that ended more than the given
// number of days ago. It counts the days up to the latest date that two consecutive runs
// have reached, so that a single run with a wrong clock removes nothing. A crash may
// leave bytes whose states were removed; the next purge removes these bytes. A crash
// never leaves a state without its bytes.
func (m *Mirror) PurgeTrash(ctx context.Context, keep int) error {
	if m.readOnly {
		return ErrReadOnly
	}
	if err := m.lockCommit(ctx); err != nil {
		return err
	}
	defer m.unlockCommit()
	if err := m.undoLeftovers(ctx); err != nil { // undoing comes first, since it may need bytes from the trash
		return err
	}
	clock, stored, err := m.trashClock(ctx)
	if err != nil {
		return err
	}
	today := dateOf(m.o.Now())
	first := clock.firstKept(today, keep)
	if first == "" {
		return nil
	}
	days, err := m.daysOutside(ctx, first, today)
	if err != nil {
		return err
	}
	for _, day := range clock.expired(days, today, first) {
		if err := m.purgeDay(ctx, day, first); err != nil {
			return err
		}
	}
	return m.keepSetting(ctx, clockSetting, clock, stored)
}

// daysOutside returns the days before first or after last on which states ended, or
// that have a directory in the trash.
func (m *Mirror) daysOutside(ctx context.Context, first, last string) ([]string, error) {
	list := m.disk.trashDays
	if m.flat != nil {
		list = func() ([]string, error) { return m.contents.TrashDays(ctx) }
	}
	days, err := list()
	if err != nil {
		return nil, err
	}
	inside := func(day string) bool { return first <= day && day <= last }
	days = slices.DeleteFunc(days, inside)
	ended, err := m.own.VersionDays(ctx, inside)
	if err != nil {
		return nil, err
	}
	days = append(days, ended...)
	slices.Sort(days)
	return slices.Compact(days), nil
}

// trashDays returns the days for which the trash has a directory. It ignores
// directories with other names, since they do not belong to the mirror.
func (d *disk) trashDays() (days []string, err error) {
	entries, err := fs.ReadDir(d.root.FS(), trashKey)
	for _, e := range entries {
		if _, bad := time.Parse(time.DateOnly, e.Name()); bad == nil {
			days = append(days, e.Name())
		}
	}
	return days, ignoreAbsent(err)
}

func (m *Mirror) purgeDay(ctx context.Context, day, first string) error {
	if err := m.own.ForgetVersions(ctx, day, first); err != nil {
		return err
	}
	for infos, err := range spool.Batches(m.bucket.List(ctx, trashKey+"/"+day+"/"), chunkSize) {
		if err == nil {
			err = m.remove(ctx, keysOf(infos))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Mirror) remove(ctx context.Context, keys []string) error {
	return blob.Remove(ctx, m.bucket, keys)
}

// chunkSize is the number of files or resources that are handled in one step.
const chunkSize = 500

func keysOf(infos []blob.Info) []string {
	keys := make([]string, len(infos))
	for i, info := range infos {
		keys[i] = info.Key
	}
	return keys
}
