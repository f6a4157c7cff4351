package mirror

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// trashRoom returns the name of a new directory in the trash: the day of a commit, and
// what tells those of the day apart.
func (m *Mirror) trashRoom(ctx context.Context, at time.Time) (string, error) {
	stem := trashKey + "/" + at.UTC().Format("2006-01-02/150405")
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

// PurgeTrash removes from the trash what came there on a day before that of
// olderThan, in UTC.
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
	day := olderThan.UTC().Format(time.DateOnly)
	var keys []string
	for info, err := range m.bucket.List(ctx, trashKey+"/") {
		if err != nil {
			return err
		}
		if !trashedBefore(info.Key, day) {
			continue
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

// trashedBefore reports whether a key is that of trash of a day before day. What
// has no day there is not ours to remove.
func trashedBefore(key, day string) bool {
	of, _, _ := strings.Cut(strings.TrimPrefix(key, trashKey+"/"), "/")
	_, err := time.Parse(time.DateOnly, of)
	return err == nil && of < day
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
