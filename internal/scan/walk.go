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
	sightSize = 256  // the number of sights (observations of the walk) that are sent at a time
)

// walker walks a tree depth first. It reads the entries of a directory in chunks and
// sorts each chunk by name. It holds one chunk in memory for the current directory and
// one for each directory above it.
type walker struct {
	d       *Dir
	options []byte       // see Dir.options
	out     chan []sight // a channel that receives the sights (observations) in the order of the walk
	held    []sight      // the sights (observations) that have not been sent yet
}

// sight is one observation of the walk: a file, a directory that is not entered or
// cannot be read, or a mount point.
type sight struct {
	name string
	found
	reason Reason
	err    error
	dir    bool
	mount  bool   // the path is a mount point, which the walk enters
	piece  *piece // the piece (group of files of one directory) that contains the file; nil if the path was given by itself
	twin   string // the path of an earlier file whose name differs only in its Unicode form; "" if there is none
}

// walk visits the files and directories that the scan is limited to, and calls see for
// each observation. It stops at the first error of see.
func (d *Dir) walk(ctx context.Context, see func(sight) error) error {
	w := walker{d: d, options: d.options(), out: make(chan []sight, 4)}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(w.out)
		for _, name := range d.roots() {
			if err := w.at(ctx, name); err != nil {
				return err
			}
		}
		return send(ctx, w.out, w.held)
	})
	g.Go(func() error {
		for sights := range w.out {
			for _, s := range sights {
				if err := see(s); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g.Wait()
}

func (w *walker) saw(ctx context.Context, s sight) error {
	w.held = append(w.held, s)
	if len(w.held) < sightSize {
		return nil
	}
	full := w.held
	w.held = make([]sight, 0, sightSize)
	return send(ctx, w.out, full)
}

func (w *walker) failed(ctx context.Context, dir string, err error) error {
	return w.saw(ctx, sight{name: dir, err: err, dir: true})
}

// enter visits a directory and everything below it. above is the FileInfo of the parent
// directory.
func (w *walker) enter(ctx context.Context, name string, above fs.FileInfo, depth int) error {
	if depth > maxDepth {
		return w.failed(ctx, name, fmt.Errorf("expected directories at most %d deep", maxDepth))
	}
	if state, err := w.d.isState(name); err != nil {
		return w.failed(ctx, name, err)
	} else if state {
		return w.saw(ctx, sight{name: name, reason: Ours})
	}
	f, err := w.d.Tree.Open(name)
	if err != nil {
		return w.failed(ctx, name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return w.failed(ctx, name, err)
	}
	if w.d.mounted(name, info, above) {
		if err := w.saw(ctx, sight{name: name, mount: true}); err != nil {
			return err
		}
	}
	var twins twinFinder
	for number := 0; ; number++ {
		entries, err := f.ReadDir(chunkSize)
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		if err := w.chunk(ctx, name, info, number, entries, depth, &twins); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return w.failed(ctx, name, err)
		}
	}
}

// chunk visits the entries of one chunk of a directory. It examines all files of the
// chunk before it enters a subdirectory, since the digest of the chunk depends on all
// its files.
func (w *walker) chunk(ctx context.Context, dir string, info fs.FileInfo, number int, entries []fs.DirEntry, depth int, twins *twinFinder) error {
	sights := make([]sight, 0, len(entries))
	p := &piece{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		s := sight{name: join(dir, e.Name()), piece: p}
		s.found, s.reason, s.err = w.d.find(s.name, e.Info)
		if twin := twins.see(e.Name()); twin != "" && s.reason == "" && s.err == nil {
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
			err, sights = w.saw(ctx, sights[0]), sights[1:]
		case w.d.hidden(name, true) != "":
			err = w.saw(ctx, sight{name: name, reason: w.d.hidden(name, true)})
		default:
			err = w.enter(ctx, name, info, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// at visits one of the paths to which the scan is limited: a file, or a directory and
// everything below it.
func (w *walker) at(ctx context.Context, name string) error {
	if name == "." {
		return w.enter(ctx, name, w.d.Above, 0)
	}
	reason, err := w.d.entered(name)
	var info fs.FileInfo
	if err == nil && reason == "" {
		info, err = w.d.Tree.Lstat(name)
	}
	switch {
	case err != nil || reason != "" || !info.IsDir():
		s := sight{name: name, reason: reason, err: err}
		if err == nil && reason == "" {
			s.found, s.reason, s.err = w.d.find(name, func() (fs.FileInfo, error) { return info, nil })
		}
		return w.saw(ctx, s)
	case w.d.hidden(name, true) != "":
		return w.saw(ctx, sight{name: name, reason: w.d.hidden(name, true)})
	}
	above, err := w.d.Tree.Lstat(catalog.DirOf(name))
	if err != nil {
		return w.failed(ctx, name, err)
	}
	return w.enter(ctx, name, above, strings.Count(name, "/")+1)
}

// join joins the path of a directory and a name. Unlike path.Join it keeps every byte
// of the name.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
