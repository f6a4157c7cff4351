package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	// fewFiles is the largest number of files for which a Group calls fsync on each file.
	// If there are more files, one syncfs of the whole file system is faster (on ext4 5
	// ms instead of 16 ms for 250 files of 5 KiB), although it also writes the data of
	// other programs.
	fewFiles = 48
	// manyFiles is the number of open files at which a Group syncs and closes all files,
	// if the system has no syncfs.
	manyFiles = 256
	// defaultWorkers limits the concurrent syncs, which share commits of the file
	// system's journal. More than 32 concurrent syncs were not faster.
	defaultWorkers = 32
)

// Group makes many written files durable together. Add is safe for concurrent use. After
// one sync has failed, every later call of Sync fails, too.
type Group struct {
	disk    Disk
	root    *os.Root
	workers int
	fs      *os.File // the root directory, opened before the first write so that SyncFS reports errors of all writes

	mu   sync.Mutex // guards the fields below
	held []*os.File
	lent map[*os.File]struct{}
	bulk bool // whether Sync must call SyncFS, because the group no longer tracks all files to sync
	err  error
}

// NewGroup returns a group for files below root. It must be called before the first write
// to any of them. The group syncs up to workers files at a time; workers <= 0 means 32.
func (d Disk) NewGroup(root *os.Root, workers int) (*Group, error) {
	if workers <= 0 {
		workers = defaultWorkers
	}
	g := &Group{disk: d, root: root, workers: workers, lent: map[*os.File]struct{}{}}
	if d.SyncFS == nil {
		return g, nil
	}
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	g.fs = f
	return g, nil
}

// Add adds a completely written file to the group, which will close it.
func (g *Group) Add(f *os.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bulk {
		return g.note(f.Close())
	}
	g.held = append(g.held, f)
	if g.fs == nil && len(g.held) >= manyFiles {
		return g.syncHeld(context.Background())
	}
	return g.note(g.switchToSyncFS())
}

// Lend adds a completely written file that remains open. Its owner closes it after the
// last Sync of the group, or after Return.
func (g *Group) Lend(f *os.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bulk {
		return nil
	}
	g.lent[f] = struct{}{}
	return g.note(g.switchToSyncFS())
}

// Return removes from the group a file that was added with Lend. The file need not be
// synced.
func (g *Group) Return(f *os.File) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.lent, f)
}

// switchToSyncFS stops tracking files if there are many, since one call of SyncFS makes
// all of them durable.
func (g *Group) switchToSyncFS() error {
	if g.fs == nil || len(g.held)+len(g.lent) <= fewFiles {
		return nil
	}
	g.bulk = true
	clear(g.lent)
	return g.closeHeld()
}

// Sync makes every file added so far durable.
func (g *Group) Sync(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if g.err != nil {
		return g.err
	}
	if !g.bulk {
		return g.syncHeld(ctx)
	}
	if err := g.disk.SyncFS(g.fs); err != nil {
		return g.note(fmt.Errorf("sync the file system of %q: %w", g.root.Name(), err))
	}
	g.bulk = false
	return nil
}

// SyncDirs makes the names of the files in the given directories durable.
func (g *Group) SyncDirs(ctx context.Context, dirs []string) error {
	if g.fs != nil && len(dirs) > fewFiles {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.disk.SyncFS(g.fs); err != nil {
			return fmt.Errorf("sync the file system of %q: %w", g.root.Name(), err)
		}
		return nil
	}
	return g.parallel(ctx, len(dirs), func(i int) error { return g.syncDir(dirs[i]) })
}

func (g *Group) syncDir(dir string) error {
	if !dirsSync {
		return nil
	}
	f, err := g.root.Open(dir)
	if err != nil {
		return err
	}
	if err := g.disk.Sync(f); err != nil {
		return errors.Join(fmt.Errorf("sync directory %q: %w", f.Name(), err), f.Close())
	}
	return f.Close()
}

// Close closes the files of the group without syncing them.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.closeHeld()
	if g.fs != nil {
		err = errors.Join(err, g.fs.Close())
		g.fs = nil
	}
	return err
}

func (g *Group) syncHeld(ctx context.Context) error {
	files := slices.AppendSeq(slices.Clone(g.held), maps.Keys(g.lent))
	err := g.parallel(ctx, len(files), func(i int) error {
		if err := g.disk.Sync(files[i]); err != nil {
			return fmt.Errorf("sync %q: %w", files[i].Name(), err)
		}
		return nil
	})
	clear(g.lent)
	return g.note(errors.Join(err, g.closeHeld()))
}

func (g *Group) closeHeld() error {
	var errs []error
	for _, f := range g.held {
		errs = append(errs, f.Close())
	}
	g.held = g.held[:0]
	return errors.Join(errs...)
}

func (g *Group) note(err error) error {
	if err != nil && g.err == nil {
		g.err = err
	}
	return err
}

func (g *Group) parallel(ctx context.Context, n int, do func(i int) error) error {
	work, failed := errgroup.WithContext(ctx)
	work.SetLimit(g.workers)
	for i := range n {
		if failed.Err() != nil {
			break
		}
		work.Go(func() error { return do(i) })
	}
	return errors.Join(work.Wait(), ctx.Err())
}
