package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/internal/publish"
	"instep/internal/scan"
	"instep/resourcesync"
)

type publishFlags struct {
	publish.Site
	publish.Set
	publish.What
	hash []string
}

const publishHelp = `Publish scans DIR, records what was created, updated and deleted since the last time,
and writes ResourceSync documents that describe it: a Resource List, a Change List, a
Capability List, a Source Description, and a plain sitemap.xml for search engines.
Everything is static: any web server can serve it (or "instep serve").

Only files whose size, times or inode changed are read again. Dotfiles, devices and
links that lead out of DIR are left out. Nothing that publish did not write itself is
ever replaced. A scan that would publish more deletions than the guard allows (10 % and
more than 5, half, or all) refuses with exit code 6.`

func (a *app) publishCommand() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish DIR --base-url URL",
		Short: "describe a directory by ResourceSync documents",
		Long:  publishHelp,
		Example: `  instep publish ./collection --base-url https://museum.example.org/
  instep publish ./collection --base-url https://example.org/museum/ --out ./documents
  instep publish -n ./collection --base-url https://museum.example.org/`,
		Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Dir = args[0]
			return a.publish(cmd.Context(), &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.BaseURL, "base-url", "", "the `URL` at which DIR is served (required)")
	fs.StringVar(&f.Out, "out", "", "write the documents below this `DIR` instead of into DIR")
	fs.StringVar(&f.State, "state", "", "keep what is remembered between runs in `DIR` (default: in the user's state directory)")
	fs.StringSliceVar(&f.hash, "hash", []string{"sha-256"}, "digests to compute: sha-256, md5, sha-1, sha-224, sha-384, sha-512")
	fs.IntVar(&f.MaxEntries, "max-entries", 0, "entries that one document of a Resource List holds at most (default and upper bound: 50000)")
	fs.IntVar(&f.ChangeListMax, "change-list-max", 0, "changes a Change List holds before a new one begins (default 5000)")
	fs.StringArrayVar(&f.Include, "include", nil, "only files that match this `GLOB` (repeatable)")
	fs.StringArrayVar(&f.Exclude, "exclude", nil, "no files that match this `GLOB` (repeatable)")
	fs.StringVar(&f.MaxDelete, "max-delete", "", "publish at most `N or N%` deletions")
	fs.BoolVar(&f.Rebase, "rebase", false, "write the Resource List anew in any case")
	fs.IntVar(&f.Workers, "workers", 0, "files read at a time (default: one a processor)")
	fs.BoolVarP(&f.DryRun, "dry-run", "n", false, "show what would be published; write nothing")
	return cmd
}

func (a *app) publish(ctx context.Context, f *publishFlags) error {
	begin := a.now()
	if f.BaseURL == "" {
		return usagef("--base-url is missing: the URL at which %s is served", f.Dir)
	}
	f.Algorithms = nil
	for _, h := range f.hash {
		f.Algorithms = append(f.Algorithms, resourcesync.Algorithm(h))
	}
	if f.State == "" {
		state, err := defaultState(f.Dir)
		if err != nil {
			return err
		}
		f.State = state
	}
	f.Site.Sets = []publish.Set{f.Set}
	f.Now, f.Generator = a.now, "instep/"+version
	progress := a.newProgress("publish")
	defer progress.stop()
	f.Observe = func(e publish.Event) { a.publishEvent(e, f.DryRun, progress) }
	rep, err := publish.Run(ctx, f.Site, f.What)
	progress.stop()
	if err != nil {
		return err
	}
	a.reportPublish(&rep, f, a.now().Sub(begin))
	return nil
}

// defaultState is the state directory of a published directory: below the user's
// state directory, named by a digest of the directory's real path.
func defaultState(dir string) (string, error) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return "", err
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("no place for the state: set XDG_STATE_HOME or give --state")
		}
		base = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(real))
	return filepath.Join(base, "instep", "publish", hex.EncodeToString(sum[:8])), nil
}

func (a *app) publishEvent(e publish.Event, dryRun bool, p *progressBar) {
	if e.Err != nil {
		p.failed(e.Err)
		a.out.warn(record{Path: e.Path, URI: e.URI, Message: e.Err.Error()})
		return
	}
	p.done(max(e.Bytes, 0))
	a.out.record(record{Type: "change", Action: string(e.Change), URI: e.URI, Path: e.Path, Bytes: optional(e.Bytes)})
	if a.out.verbose || dryRun {
		a.out.line("%s %s", map[resourcesync.Change]string{resourcesync.Created: "+", resourcesync.Updated: "~", resourcesync.Deleted: "-"}[e.Change], printable(e.Path))
	}
}

// leftOut says in words what a scan leaves out; our own documents go without saying.
var leftOut = map[scan.Reason]string{
	scan.Dotfile: "with a name that begins with a dot",
	scan.Symlink: "links that lead nowhere, to a directory, or out of what is published",
	scan.Special: "devices, sockets and the like",
	scan.Pattern: "by --include and --exclude",
}

func (a *app) reportPublish(rep *publish.Report, f *publishFlags, took time.Duration) {
	for _, n := range rep.Notes {
		a.out.warn(record{Message: n})
	}
	for reason, n := range sorted(rep.Excluded) {
		if what, ok := leftOut[scan.Reason(reason)]; ok {
			a.out.say("left out: %d %s", n, what)
		}
	}
	status := "published"
	switch {
	case f.DryRun:
		status = "plan"
	case rep.Failed > 0:
		status = "partial"
	}
	if rep.Failed > 0 {
		a.code = exitPartial
		a.out.warn(record{Message: fmt.Sprintf("%d files could not be published; what was published of them before stays", rep.Failed)})
	}
	a.out.say("%s resources, %s, at %s", humanize.Comma(rep.Resources), humanize.Bytes(uint64(rep.Bytes)), f.BaseURL)
	if !f.DryRun {
		a.out.say("Source Description  %s", rep.Description)
		a.out.say("Capability List     %s", rep.CapabilityList)
		a.out.say("Resource List       %s", rep.ResourceList)
		a.out.say("Change List         %s", rep.ChangeList)
		if rep.Unchanged == 0 {
			a.out.say("Serve this with any web server at that URL, or try it: instep serve %s", strings.TrimSpace(f.Dir+" "+f.Out))
		}
	}
	a.out.end(summary{
		Status: status, Same: num(rep.Unchanged), Created: num(rep.Created), Updated: num(rep.Updated), Deleted: num(rep.Deleted),
		Failed: num(rep.Failed), Resources: num(rep.Resources), Bytes: num(rep.Hashed), Excluded: rep.Excluded,
		Documents: rep.Documents, Seconds: seconds(took), ExitCode: a.code,
	}, fmt.Sprintf("Status: %s (same=%d, created=%d, updated=%d, deleted=%d, failed=%d)   %s, %s read",
		words[status], rep.Unchanged, rep.Created, rep.Updated, rep.Deleted, rep.Failed,
		took.Round(10*time.Millisecond), humanize.Bytes(uint64(rep.Hashed))))
}
