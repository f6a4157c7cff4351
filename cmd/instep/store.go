package main

import (
	"context"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/runs"
	"instep/mirror"
	"instep/source"
)

// storeFlags are the flags about how a mirror stores its bytes, and how it treats files
// that are already in its directory.
type storeFlags struct {
	adopt  bool
	layout string
}

func (f *storeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.adopt, "adopt", false, "take over the files in DIR, fetched by other programs or left of a mirror: what is verified is not fetched again; begin a new catalog if that of the mirror is lost or damaged")
	fs.StringVar(&f.layout, "layout", "", "`LAYOUT` of a new mirror: tree (the default), with a file for each URI, or flat, with a file for all that have the same bytes, named by their sha-256")
}

// apply sets the options in o from the flags.
func (f *storeFlags) apply(o *mirror.Options) error {
	o.Adopt, o.Layout = f.adopt, mirror.Layout(f.layout)
	switch o.Layout {
	case "", mirror.Tree, mirror.Flat:
		return nil
	}
	return usagef("--layout %q: expected %s or %s", f.layout, mirror.Tree, mirror.Flat)
}

// maxNamed is the number of files that are listed without -v.
const maxNamed = 20

// reportStore lists, after a successful run, files in a mirror's directory that belong to
// no resource, and interrupted transfers.
func (a *app) reportStore(ctx context.Context, m *mirror.Mirror, dir string, f *storeFlags, ended error) error {
	if ended != nil {
		return ended
	}
	if f.adopt {
		if err := a.reportStrangers(ctx, m, dir); err != nil {
			return err
		}
	}
	n, bytes, err := m.PartsKept(ctx)
	if err == nil && n > 0 {
		a.out.say("%d transfers that broke off go on in the next run; they take %s until then, for a week at most", n, humanize.Bytes(uint64(bytes)))
	}
	return err
}

// tellFound reports a file of the user that was moved because a resource has its path.
func (a *app) tellFound(found mirror.Found, dir string, log *runLog) {
	r := warningRecord{
		URI: found.URI, Path: found.Path, Trash: found.Kept,
		Message: fmt.Sprintf("%s was here already and is not what the Source has: it is in the trash, at %s", found.Path, found.Kept),
		Hint:    fmt.Sprintf("to get it back: instep restore %s %s --to FILE", shellWord(dir), shellWord(found.Path)),
	}
	a.out.warn(r)
	log.Add(runs.Row{Kind: runs.Note, URI: r.URI, Path: r.Path, Message: r.Message, Hint: r.Hint})
}

// reportStrangers lists files in the directory of a mirror that belong to no resource.
// If the mirror is published, its documents do not count.
func (a *app) reportStrangers(ctx context.Context, m *mirror.Mirror, dir string) error {
	n := 0
	_, unpublished := source.ReadPublicationInfo(os.DirFS(dir))
	for path, err := range m.Strangers(ctx) {
		if err != nil {
			return fmt.Errorf("look for files that are no resources: %w", err)
		}
		if unpublished == nil && source.MayBeDocument(path) {
			continue
		}
		if n++; n <= maxNamed || a.out.json || a.out.verbose {
			a.out.warn(warningRecord{Path: path, Message: printable(path) + " is not a resource of the Source; it stays"})
		}
	}
	if n > maxNamed && !a.out.json && !a.out.verbose {
		a.out.warn(warningRecord{Message: fmt.Sprintf("and %d more files that are not resources of the Source (-v names all)", n-maxNamed)})
	}
	return nil
}

// adopted returns the path of the file that an action takes over; "" if it takes none.
func adopted(act destination.Action) string {
	if act.Kind != destination.Adopt {
		return ""
	}
	return act.From
}
