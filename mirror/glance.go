package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"

	"instep/blob"
	"instep/internal/catalog"
	"instep/resourcesync"
)

const (
	glanceFiles = 32       // the number of files that Glance checks at a time
	glanceReads = 4        // the number of files that Glance reads although their modification times are unchanged
	glanceBytes = 64 << 10 // the largest size, in bytes, of a file that Glance reads although its modification time is unchanged
)

// Glance checks 32 files of each set, different ones each time. If a file is missing or
// changed, Glance marks the resource as due, so that the next run fetches it again. It
// returns the number of these resources. As long as it finds such files in a set, it
// checks 32 more, up to all files of the set. It compares the size of each file, and
// reads a file whose modification time has changed. Of the other files it reads at most
// four, and none of more than 64 KiB. Only an audit reads all files.
func (m *Mirror) Glance(ctx context.Context) (lost int64, err error) {
	if m.readOnly {
		return 0, ErrReadOnly
	}
	sets, err := m.facts.Sets(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range sets {
		n, err := m.glanceSet(ctx, s.ID)
		lost += n
		if err != nil {
			return lost, fmt.Errorf("check files of the mirror: %w", err)
		}
	}
	return lost, nil
}

// glanceSet begins at a random record of the catalog, so that each run checks other
// files. It continues with the first record after the last one.
func (m *Mirror) glanceSet(ctx context.Context, set catalog.SetID) (lost int64, err error) {
	last, err := m.facts.LastID(ctx)
	if err != nil || last == 0 {
		return 0, err
	}
	begin := 1 + rand.New(rand.NewPCG(uint64(m.o.Now().UnixNano()), uint64(set))).Int64N(last)
	from, around := begin, false
	for {
		some, err := m.facts.MembersFrom(ctx, set, from, glanceFiles)
		if err != nil {
			return lost, err
		}
		ended := len(some) < glanceFiles
		if around {
			if past := slices.IndexFunc(some, func(r catalog.Resource) bool { return r.ID >= begin }); past >= 0 {
				some, ended = some[:past], true
			}
		}
		n, err := m.checkFiles(ctx, some)
		lost += n
		switch {
		case err != nil, !ended && n == 0, ended && around:
			return lost, err
		case ended:
			from, around = 1, true
		default:
			from = some[len(some)-1].ID + 1
		}
	}
}

// checkFiles marks resources as due if their files are missing or changed. It returns
// the number of resources that it has marked.
func (m *Mirror) checkFiles(ctx context.Context, rows []catalog.Resource) (int64, error) {
	var lost []catalog.Resource
	reads := glanceReads
	for i := range rows {
		r := &rows[i]
		if !r.Stored || r.Due != "" {
			continue
		}
		as, err := m.isUnchanged(ctx, r, &reads)
		if err != nil {
			return 0, err
		}
		if !as {
			lost = append(lost, *r)
		}
	}
	if len(lost) == 0 {
		return 0, nil
	}
	if err := m.lockCommit(ctx); err != nil {
		return 0, err
	}
	defer m.unlockCommit()
	if err := m.undoLeftovers(ctx); err != nil {
		return 0, err
	}
	return int64(len(lost)), m.recordLost(ctx, lost, "the file of the resource was changed or removed")
}

// isUnchanged reports whether the file of a resource is unchanged. It reads the file if
// the modification time has changed. Otherwise it reads the file only if it is small
// and if *reads, the number of such files that may still be read, is not 0. It returns
// true for a file that cannot be read, since only an audit reports read errors.
func (m *Mirror) isUnchanged(ctx context.Context, r *catalog.Resource, reads *int) (bool, error) {
	info, err := m.bucket.Stat(ctx, r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, blob.ErrForeign):
		return false, nil
	case err != nil:
		return true, ctx.Err()
	case info.Size != r.Length.Int64():
		return false, nil
	}
	if untouched(info, r.Length, r.Stat) {
		if *reads == 0 || info.Size > glanceBytes {
			return true, nil
		}
		*reads--
	}
	sum := r.Digests.Get(resourcesync.SHA256)
	if sum.IsZero() {
		return true, nil
	}
	same, err := m.holds(ctx, r.Path, r.Length, sum)
	if err != nil {
		return true, ctx.Err()
	}
	return same, nil
}
