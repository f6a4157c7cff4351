package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"instep/destination"
	"instep/internal/mirror"
)

// storeFlags say what becomes of files that are in the directory already.
type storeFlags struct {
	adopt bool
}

func (f *storeFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.adopt, "adopt", false, "take over the files in DIR, fetched by other programs or left of a mirror: what is verified is not fetched again")
}

func (f *storeFlags) options(o mirror.Options) mirror.Options {
	o.Adopt = f.adopt
	return o
}

// maxNamed is how many files are named to people who did not ask for all.
const maxNamed = 20

// reportStore tells of files in a mirror's directory that belong to no resource, and of
// transfers that broke off.
func (a *app) reportStore(ctx context.Context, m *mirror.Mirror, f *storeFlags) error {
	if f.adopt {
		if err := a.reportStrangers(ctx, m); err != nil {
			return err
		}
	}
	n, bytes, err := m.PartsKept(ctx)
	if err == nil && n > 0 {
		a.out.say("%d transfers that broke off go on in the next run; they take %s until then, for a week at most", n, humanize.Bytes(uint64(bytes)))
	}
	return err
}

func (a *app) reportStrangers(ctx context.Context, m *mirror.Mirror) error {
	n := 0
	for path, err := range m.Strangers(ctx) {
		if err != nil {
			return fmt.Errorf("look for files that are no resources: %w", err)
		}
		if n++; n <= maxNamed || a.out.json || a.out.verbose {
			a.out.warn(record{Path: path, Message: "is no resource of the Source, and stays: " + printable(path)})
		}
	}
	if n > maxNamed && !a.out.json && !a.out.verbose {
		a.out.warn(record{Message: fmt.Sprintf("and %d more files that are no resources (-v names all)", n-maxNamed)})
	}
	return nil
}

// adopted is the file that an action takes over; "" if it takes none.
func adopted(act destination.Action) string {
	if act.Kind != destination.Adopt {
		return ""
	}
	return act.From
}
