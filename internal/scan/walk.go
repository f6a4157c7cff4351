package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

const (
	chunkSize = 1024 // entries of a directory read at a time
	maxDepth  = 256  // of directories, each of which keeps a file open
)

// walker goes through a tree, depth first, and in order of names within each
// chunk of a directory. It holds one chunk for each directory it is in.
type walker struct {
	d        *Dir
	file     func(name string) error            // what is no directory
	excluded func(Reason)                       // a directory that is not entered
	failed   func(name string, err error) error // a directory that can't be read
}

func (w *walker) walk(ctx context.Context) error { return w.enter(ctx, ".", 0) }

func (w *walker) enter(ctx context.Context, name string, depth int) error {
	if depth > maxDepth {
		return w.failed(name, fmt.Errorf("expected directories at most %d deep", maxDepth))
	}
	f, err := w.d.Tree.Open(name)
	if err != nil {
		return w.failed(name, err)
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(chunkSize)
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range entries {
			if err := w.entry(ctx, join(name, e.Name()), e, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return w.failed(name, err)
		}
	}
}

func (w *walker) entry(ctx context.Context, name string, e fs.DirEntry, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !e.IsDir() {
		return w.file(name)
	}
	if r := w.d.hidden(name); r != "" {
		w.excluded(r)
		return nil
	}
	return w.enter(ctx, name, depth+1)
}

// join keeps every byte of a name, as path.Join would not.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
