package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/internal/runs"
	"instep/mirror"
	"instep/source"
)

type storeFlags struct {
	adopt  bool
	layout string
}

func (f *storeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&f.adopt, "adopt", false, "take over the files in DIR, from other programs or an earlier mirror: verified files are not fetched again; begin a new catalog if the mirror's catalog is lost or damaged")
	fs.StringVar(&f.layout, "layout", "", "`LAYOUT` of a new mirror: tree (the default) has one file for each URI, flat has one file, named by its sha-256, for all resources with the same bytes")
}

func (f *storeFlags) apply(o *mirror.Options) error {
	o.Adopt, o.Layout = f.adopt, mirror.Layout(f.layout)
	return chooseIfSet("layout", f.layout)
}

// maxNamed is the largest number of files that are listed if -v is not given.
const maxNamed = 20

// reportStore prints what the directory holds apart from resources: interrupted transfers and, with
// --adopt, files of others. If the run failed with runErr, it prints nothing and returns runErr.
func (a *app) reportStore(ctx context.Context, m *mirror.Mirror, dir string, f *storeFlags, runErr error) error {
	if runErr != nil {
		return runErr
	}
	if f.adopt {
		if err := a.reportStrangers(ctx, m, dir); err != nil {
			return err
		}
	}
	n, bytes, err := m.PartsKept(ctx)
	if err == nil && n > 0 {
		a.out.say("%d interrupted transfers will continue in the next run; their %s are kept for a week at most", n, humanSize(bytes))
	}
	return err
}

// tellFound warns that a file of the user was moved to the trash, because a resource of the Source
// is now stored at the path of the file.
func (a *app) tellFound(found mirror.Found, dir string, log *runLog) {
	r := warningRecord{
		URI: found.URI, Path: found.Path, Trash: found.Kept,
		Message: fmt.Sprintf("%s existed already with other bytes than the Source's: the file is now in the trash, at %s", found.Path, found.Kept),
		Hint:    fmt.Sprintf("to get it back: instep restore %s %s --to FILE", shellLine(dir), shellLine(found.Path)),
	}
	a.out.warn(r)
	log.Add(runs.Row{Kind: runs.Note, URI: r.URI, Path: r.Path, Message: r.Message, Hint: r.Hint})
}

// reportStrangers lists the files in the directory of a mirror that belong to no resource. If the
// mirror is published, its documents are not listed.
func (a *app) reportStrangers(ctx context.Context, m *mirror.Mirror, dir string) error {
	n := 0
	_, unpublished := source.ReadPublicationInfo(os.DirFS(dir))
	for path, err := range m.Strangers(ctx) {
		if err != nil {
			return fmt.Errorf("search for files that are no resources: %w", err)
		}
		if unpublished == nil && source.MayBeDocument(path) {
			continue
		}
		if n++; n <= maxNamed || a.out.json || a.out.verbose {
			a.out.warn(warningRecord{Path: path, Message: fmt.Sprintf("%s is not a resource of the Source, and stays", printable(path))})
		}
	}
	if n > maxNamed && !a.out.json && !a.out.verbose {
		a.out.warn(warningRecord{Message: fmt.Sprintf("and %d more files that are not resources of the Source (-v names all)", n-maxNamed)})
	}
	return nil
}

func adoptedPath(act destination.Action) string {
	if act.Kind != destination.Adopt {
		return ""
	}
	return act.From
}
