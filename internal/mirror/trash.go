package mirror

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// trashRoom returns the name of a new directory in the trash: the day of a commit, and
// what tells those of the day apart.
func (m *Mirror) trashRoom(ctx context.Context, at time.Time) (string, error) {
	stem := trashKey + "/" + at.UTC().Format("2006-01-02/150405")
	if m.flat != nil { // nothing tells quickly whether a name begins so
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

// purgeBatch is how many files PurgeTrash removes at a time.
const purgeBatch = 500

// PurgeTrash forgets the states that ended on a day before that of olderThan, in UTC,
// and removes their bytes. A crash in between leaves bytes without a state, never the
// reverse; the next purge removes them.
func (m *Mirror) PurgeTrash(ctx context.Context, olderThan time.Time) error {
	if m.readOnly {
		return ErrReadOnly
	}
	if err := m.lockCommit(ctx); err != nil {
		return err
	}
	defer m.unlockCommit()
	if err := m.undoLeftovers(ctx); err != nil { // it may need the trash
		return err
	}
	first := olderThan.UTC().Truncate(24 * time.Hour) // day that stays
	if err := m.cat.ForgetVersions(ctx, first); err != nil {
		return err
	}
	days, err := m.trashDays(ctx, first)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := m.purgeDay(ctx, day); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mirror) trashDays(ctx context.Context, before time.Time) ([]string, error) {
	if m.flat != nil {
		return m.cat.TrashDays(ctx, before)
	}
	return m.disk.trashDays(before)
}

// trashDays returns the days before one of which there is trash. What is called
// otherwise is not ours to remove.
func (d *disk) trashDays(before time.Time) (days []string, err error) {
	dir, err := d.root.Open(trashKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for {
		names, err := dir.Readdirnames(100)
		for _, name := range names {
			if day, bad := time.Parse(time.DateOnly, name); bad == nil && day.Before(before) {
				days = append(days, name)
			}
		}
		if errors.Is(err, io.EOF) {
			return days, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (m *Mirror) purgeDay(ctx context.Context, day string) error {
	var keys []string
	for info, err := range m.bucket.List(ctx, trashKey+"/"+day+"/") {
		if err != nil {
			return err
		}
		if keys = append(keys, info.Key); len(keys) == purgeBatch {
			if err := m.remove(ctx, keys); err != nil {
				return err
			}
			keys = keys[:0]
		}
	}
	return m.remove(ctx, keys)
}

func (m *Mirror) remove(ctx context.Context, keys []string) error {
	b, err := m.bucket.Begin(ctx)
	if err != nil {
		return err
	}
	defer b.Discard()
	for _, key := range keys {
		b.Delete(key)
	}
	return b.Commit(ctx)
}
