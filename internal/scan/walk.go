package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"instep/internal/catalog"
)

const (
	chunkSize = 1024 // the number of directory entries that are read at a time
	maxDepth  = 256  // the largest depth of nested directories; during the walk each level keeps a directory open
	sendSize  = 256  // the number of observations that are sent at a time
)

// walker walks a tree depth first. It reads the entries of a directory in chunks and sorts
// each chunk by name. It holds one chunk in memory for the current directory and one chunk
// for each directory above it.
type walker struct {
	d       *Dir
	options []byte             // see Dir.options
	out     chan []observation // receives the observations in the order of the walk
	unsent  []observation      // the observations that have not been sent yet
}

// observation is one result of the walk: a file, a directory that is not entered or cannot
// be read, or a mount point.
type observation struct {
	name string
	found
	reason Reason
	err    error
	dir    bool
	mount  bool   // whether the path is a mount point, which the walk enters
	piece  *piece // the piece (part of a directory) that contains the file; nil if the scan is limited to this file
	twin   string // the path of an earlier file whose name differs only in its Unicode form; "" if there is none
}

// walk visits the files and directories to which the scan is limited, and passes each
// observation to the function take. It stops at the first error of take.
func (d *Dir) walk(ctx context.Context, take func(observation) error) error {
	w := walker{d: d, options: d.options(), out: make(chan []observation, 4)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(w.out)
		for _, name := range d.roots() {
			if err := w.visitRoot(ctx, name); err != nil {
				return err
			}
		}
		return send(ctx, w.out, w.unsent)
	})
	g.Go(func() error {
		for sights := range w.out {
			for _, s := range sights {
				if err := take(s); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g.Wait()
}

func (w *walker) report(ctx context.Context, s observation) error {
	w.unsent = append(w.unsent, s)
	if len(w.unsent) < sendSize {
		return nil
	}
	full := w.unsent
	w.unsent = make([]observation, 0, sendSize)
	return send(ctx, w.out, full)
}

func (w *walker) reportError(ctx context.Context, dir string, err error) error {
	return w.report(ctx, observation{name: dir, err: err, dir: true})
}

func (w *walker) visitDir(ctx context.Context, name string, parent fs.FileInfo, depth int) error {
	if depth > maxDepth {
		return w.reportError(ctx, name, fmt.Errorf("expected directories at most %d deep", maxDepth))
	}
	if state, err := w.d.isState(name); err != nil {
		return w.reportError(ctx, name, err)
	} else if state {
		return w.report(ctx, observation{name: name, reason: Ours})
	}
	f, err := w.d.Tree.Open(name)
	if err != nil {
		return w.reportError(ctx, name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return w.reportError(ctx, name, err)
	}
	if w.d.onOtherDevice(name, info, parent) {
		if err := w.report(ctx, observation{name: name, mount: true}); err != nil {
			return err
		}
	}
	var twins twinFinder
	for number := 0; ; number++ {
		entries, err := f.ReadDir(chunkSize)
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		if err := w.visitChunk(ctx, name, info, number, entries, depth, &twins); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return w.reportError(ctx, name, err)
		}
	}
}

// visitChunk visits the entries of one chunk of a directory. It examines all files of the
// chunk before it enters a subdirectory, because the digest of the chunk depends on all
// its files.
func (w *walker) visitChunk(ctx context.Context, dir string, info fs.FileInfo, number int, entries []fs.DirEntry, depth int, twins *twinFinder) error {
	sights := make([]observation, 0, len(entries))
	p := &piece{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		s := observation{name: join(dir, e.Name()), piece: p}
		s.found, s.reason, s.err = w.d.find(s.name, e.Info)
		if twin := twins.addName(e.Name()); twin != "" && s.reason == "" && s.err == nil {
			s.twin = join(dir, twin)
		}
		sights = append(sights, s)
	}
	p.identify(w.options, dir, number, sights)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		switch name := join(dir, e.Name()); {
		case !e.IsDir():
			err, sights = w.report(ctx, sights[0]), sights[1:]
		case w.d.refusedPath(name, true) != "":
			err = w.report(ctx, observation{name: name, reason: w.d.refusedPath(name, true)})
		default:
			err = w.visitDir(ctx, name, info, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) visitRoot(ctx context.Context, name string) error {
	if name == "." {
		return w.visitDir(ctx, name, w.d.Above, 0)
	}
	reason, err := w.d.refusedAbove(name)
	var info fs.FileInfo
	if err == nil && reason == "" {
		info, err = w.d.Tree.Lstat(name)
	}
	switch {
	case err != nil || reason != "" || !info.IsDir():
		s := observation{name: name, reason: reason, err: err}
		if err == nil && reason == "" {
			s.found, s.reason, s.err = w.d.find(name, func() (fs.FileInfo, error) { return info, nil })
		}
		return w.report(ctx, s)
	case w.d.refusedPath(name, true) != "":
		return w.report(ctx, observation{name: name, reason: w.d.refusedPath(name, true)})
	}
	parent, err := w.d.Tree.Lstat(catalog.DirOf(name))
	if err != nil {
		return w.reportError(ctx, name, err)
	}
	return w.visitDir(ctx, name, parent, strings.Count(name, "/")+1)
}

// join joins the path of a directory and a name. Unlike path.Join it keeps every byte
// of the name.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
