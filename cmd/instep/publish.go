package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"instep/fetch"
	"instep/internal/publish"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

type publishFlags struct {
	config string // the name of the configuration file
	set    string
	what   publish.What
	dryRun bool
	adopt  bool
	moveTo string
	zip    string
	show   string
	watch  watchFlags
}

const publishHelp = `Publish scans DIR, records what was created, updated and deleted since the last scan, and writes
ResourceSync documents that describe it: a Resource List, Change Lists, a Capability List, a
Source Description, and a plain sitemap.xml for search engines. With --dump it also writes
packages of the resources, with --archive it keeps earlier lists and dumps, and with --patches
it writes small files that turn the old version of a resource into the new one. All are static
files, which any web server can serve; "instep serve" can, too.

Publish stores the base URL and the texts for the page about the collection. Later runs need no
flags for them. All other flags apply to one run: repeat them, or write a configuration file.

Publish reads a file again only if its size, times or inode have changed, or if it had changed
only seconds before it was read. It leaves out dotfiles, devices, and links that lead out of DIR. It never replaces a file that it did not
write. If a scan finds more deletions than the guard allows (10 % and more than 5 files, half of
the files, or all), or if DIR is gone, publish changes nothing and ends with exit code 6.

With -c FILE publish reads its settings from a configuration file, which can describe several
sets. Environment variables (INSTEP_ and the name of the flag, such as INSTEP_BASE_URL) override
the file, and flags override both. "instep config check FILE" shows the resulting values.

To move a publication to another base URL, for example from this machine to its real server,
give --move-to URL once. Publish then removes the documents that it wrote for the old URL, and
mirrors copy the set again from the new one. With -n it only names the documents.

If DIR is a mirror, publish takes its resources from the mirror's catalog. Each entry names its
origin (rel="via"). Files that sync wrote are not read again. Until the first synchronization is
complete, publish ends with exit code 5. See "instep help mirror".

With --watch publish keeps running, and publishes again a few seconds after a change. With
--show it publishes nothing, but prints the lines that lead others to the publication; add them
to your robots.txt or pages.`

func (a *app) publishCommand() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish [DIR] --base-url URL",
		Short: "describe a directory by ResourceSync documents",
		Long:  publishHelp,
		Example: `  instep publish ./collection --base-url https://museum.example.org/
  instep publish ./collection --base-url https://example.org/museum/ --out ./documents
  instep publish -n ./collection --base-url https://museum.example.org/
  instep publish ./collection --move-to https://museum.example.org/
  instep publish -c site.yaml --watch
  instep publish ./mirror --base-url https://copy.example.org/
  instep publish ./collection --show robots`,
		Args: publishArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.publish(cmd, &f, args) },
	}
	addOptions(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.config, "config", "c", "", "read the configuration from this `FILE` (YAML)")
	fs.StringVar(&f.set, "set", "", "`NAME` of the set; if the configuration has several sets, only the set with this name is published")
	fs.BoolVar(&f.what.Rebase, "rebase", false, "write the Resource List (and Resource Dump) anew in any case; if DIR is a mirror, compare all its resources")
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "show what would be published; write nothing")
	fs.BoolVar(&f.adopt, "adopt", false, "take over what another program published, or what was published with a state that is lost")
	fs.StringVar(&f.moveTo, "move-to", "", "publish at this base `URL` what was published at another one, and remove the earlier documents")
	fs.StringVar(&f.zip, "zip", "", "also pack the documents (not the resources) into this ZIP `FILE`, to copy them to another web server")
	fs.StringVar(&f.show, "show", "", "publish nothing; print the lines to add to robots.txt or to HTML pages: `robots|html`")
	f.watch.register(fs)
	return cmd
}

// publishArgs allows one directory. If there are two, the error may explain --keep-versions=1y,
// because in "--keep-versions 1y" the 1y is taken for a directory.
func publishArgs(cmd *cobra.Command, args []string) error {
	err := optionalArgs(0, "DIR")(cmd, args)
	if err != nil && cmd.Flags().Changed("keep-versions") {
		return usagef("unexpected argument %q; a time is given as --keep-versions=1y", args[1])
	}
	return err
}

func (a *app) publish(cmd *cobra.Command, f *publishFlags, args []string) error {
	c, err := configure(cmd, f.config, f.set)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		c.Dir, c.origins["dir"] = args[0], fromArgument+"DIR"
	}
	if err := c.needsDir(cmd); err != nil {
		return err
	}
	if f.show != "" {
		return a.show(c, f.show)
	}
	if f.moveTo != "" {
		c.BaseURL, c.origins["base_url"] = f.moveTo, fromFlag+"--move-to"
	}
	if err := c.completeBaseURL(cmd, a.now); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case !f.dryRun:
		if err := c.makeDir(); err != nil {
			return err
		}
	case c.makesDir():
		return usagef("-n shows what the last run harvested, but nothing was harvested yet: give the command without -n")
	}
	site, err := c.placedSite()
	if err != nil {
		return err
	}
	if c.file != nil && f.set != "" {
		f.what.Sets = []string{f.set}
	}
	site.Adopt, site.DryRun, site.Now, site.Generator = f.adopt, f.dryRun, a.now, "instep/"+version
	site.Move = f.moveTo != ""
	if site.Move && f.dryRun {
		moves, err := a.planMove(cmd.Context(), &site)
		if err != nil || moves {
			return err
		}
	}
	if f.watch.on {
		f.watch.runs = c.mirrorRuns(a.now)
		err = a.watch(cmd.Context(), site, f)
	} else {
		err = a.publishOnce(cmd.Context(), site, f)
	}
	return c.withPlaceHint(cmd.Context(), withMoveHint(err, cmd, args), a.now)
}

// withPlaceHint handles the error that documents were published with another state directory. It
// adds a hint if the last publication perhaps had no --out and --state, but this run has.
func (c *configuration) withPlaceHint(ctx context.Context, err error, now func() time.Time) error {
	we, ok := errors.AsType[*source.WrongStateError](err)
	if !ok || c.Dir == "" || c.Out == "" && c.State == "" {
		return err
	}
	state, failed := defaultState(c.Dir, "")
	if failed != nil {
		return err
	}
	recorded, failed := publish.BaseURLOf(ctx, state, now)
	if failed != nil || recorded != we.BaseURL {
		return err
	}
	if held, failed := publishedFor(c.Dir); failed != nil || held != we.BaseURL {
		return err
	}
	var given []string
	file := ""
	for _, key := range []string{"out", "state"} {
		if from := c.origins[key]; strings.HasPrefix(from, fromFile) {
			given = append(given, fmt.Sprintf("%q", key))
			file = " in " + shellLine(c.file.name)
		} else if from != "" {
			given = append(given, originName(from))
		}
	}
	leave := "both"
	if len(given) == 1 {
		leave = given[0]
	}
	return &hintedError{err, fmt.Sprintf("%s was published without %s; to continue with that publication, omit %s%s",
		shellLine(c.Dir), strings.Join(given, " and "), leave, file)}
}

// withMoveHint handles the error that the last publication had another base URL. It adds the
// command with --move-to as a hint.
func withMoveHint(err error, cmd *cobra.Command, args []string) error {
	se, ok := errors.AsType[*publish.StateError](err)
	if !ok || se.What != publish.WhatBaseURL {
		return err
	}
	words := append([]string{"instep", "publish"}, args...)
	for _, name := range []string{"config", "out", "state"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			words = append(words, "--"+name, flag.Value.String())
		}
	}
	command := shellLine(append(words, "--move-to", se.Given)...)
	hint := "to move the publication to the given base URL: " + command
	if cmd.Flags().Changed("out") { // without --out no second publication is suggested: it would list the documents of this one as resources
		hint += "; to publish for both URLs, give --state DIR and --out DIR with directories that are not used yet"
	}
	return &hintedError{err, hint}
}

// completeBaseURL takes a missing base URL from the last publication.
func (c *configuration) completeBaseURL(cmd *cobra.Command, now func() time.Time) (err error) {
	if c.BaseURL != "" || c.file != nil {
		return nil
	}
	state := c.State
	if state == "" && !c.makesDir() {
		if state, err = defaultState(c.Dir, c.Out); err != nil {
			return err
		}
	}
	if state != "" {
		c.BaseURL, err = publish.BaseURLOf(cmd.Context(), state, now)
	}
	if err != nil || c.BaseURL != "" {
		return err
	}
	if base, _ := publishedFor(cmp.Or(c.Out, c.Dir)); base != "" {
		err = usagef("--base-url is missing: what is in %s was published for %s, with another state", cmp.Or(c.Out, c.Dir), base)
		return &hintedError{err, takeOverHint(base)}
	}
	return usagef("--base-url is missing: the URL at which %s is served (see %s --help)", cmp.Or(c.Dir, c.Out), cmd.CommandPath())
}

// needsDir returns an error if a required directory is missing: the directory with the files of a
// set, or the directory for the documents.
func (c *configuration) needsDir(cmd *cobra.Command) error {
	listed := !slices.ContainsFunc(c.Sets, func(s setConfig) bool { return len(s.From.givenKeys()) == 0 })
	switch {
	case c.Dir != "" || listed && c.Out != "":
		return nil
	case listed && c.file != nil:
		return c.errorAt("out", errors.New("expected the directory for the documents, found no value"))
	case c.file != nil:
		return c.errorAt("dir", errors.New("expected the directory to publish, found no value"))
	}
	return usagef("DIR is missing (see %s --help)", cmd.CommandPath())
}

func (a *app) publishOnce(ctx context.Context, site publish.Site, f *publishFlags) (err error) {
	begin := a.now()
	progress := a.newProgress("publish", nil)
	defer progress.stop()
	site.Observe = func(e publish.Event) { a.publishEvent(e, &site, progress) }
	if a.out.verbose {
		a.out.say("The state of the publication is in %s", printable(site.State))
		site.LeftOut = func(path string, why scan.Reason) { a.out.line("left out: %s   (%s)", printable(path), leftOut[why]) }
	}
	s, err := publish.Open(ctx, site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if f.config != "" {
		a.warnUnconfigured(s.Others(), f.config)
	}
	rep, err := s.Publish(ctx, f.what)
	if err == nil && f.zip != "" {
		err = a.packDocuments(ctx, s, &site, f.zip)
	}
	progress.stop()
	if err != nil {
		a.reportOthers(&rep, &site)
		return a.explainGuard(err, &rep)
	}
	a.reportPublish(&rep, &site, f, a.now().Sub(begin))
	return nil
}

// planMove prints which documents --move-to would remove. It returns false if nothing is published
// at another base URL.
func (a *app) planMove(ctx context.Context, site *publish.Site) (moves bool, err error) {
	before, keys, err := publish.PlanMove(ctx, *site)
	if err != nil || before == "" {
		return false, err
	}
	for _, key := range keys {
		a.out.line("remove  %s", printable(key))
	}
	a.out.say("%s published for %s would be removed, and everything would be published for %s", counted(int64(len(keys)), "document"), before, site.BaseURL)
	a.out.end(summary{Status: "plan", Retired: keys}, fmt.Sprintf("Status: PLAN (documents to remove=%d)", len(keys)))
	return true, nil
}

func (a *app) warnUnconfigured(sets []string, config string) {
	for _, set := range sets {
		name, remove := fmt.Sprintf("the set %q", set), source.CapabilityListURI("", set)
		if set == "" {
			name = "the set without a name"
		} else {
			remove = path.Dir(remove) + "/"
		}
		a.out.warn(warningRecord{Message: fmt.Sprintf("%s is published but not in %s, and stays published as it is", name, config), Hint: fmt.Sprintf("to end the publication of this set, remove %s from the documents and publish again", remove)})
	}
}

func (c *configuration) placedSite() (site publish.Site, err error) {
	site = c.site()
	if site.State == "" {
		site.State, err = defaultState(c.Dir, c.Out)
	}
	return site, err
}

// defaultState returns a directory below the user's state directory. Its name is a digest of the
// real path of dir or, if dir is "", of the path of out.
func defaultState(dir, out string) (string, error) {
	real, err := filepath.Abs(out)
	if dir != "" {
		if real, err = filepath.Abs(dir); err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %w", scan.ErrRoot, err)
		}
	}
	if err != nil {
		return "", err
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("there is no home directory in which to keep the state: set XDG_STATE_HOME or give --state")
		}
		base = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(real))
	return filepath.Join(base, "instep", "publish", hex.EncodeToString(sum[:8])), nil
}

// hintConfiguration replaces the hint of the error about a refused origin. The new hint names the
// configuration key that allows the origin, because publish has no flag for that.
func hintConfiguration(err error) {
	if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.AllowOrigin != "" {
		fe.Hint = "to allow the origin, add it to from.allow_origins in the configuration: " + fe.AllowOrigin
	}
}

func (a *app) publishEvent(e publish.Event, site *publish.Site, p *progressBar) {
	set, setName := "", ""
	if len(site.Sets) > 1 {
		set, setName = source.CapabilityListURI(site.BaseURL, e.Set), "   ("+cmp.Or(e.Set, "the default set")+")"
	}
	if e.Err != nil {
		hintConfiguration(e.Err)
		p.showFailure(e.Err.Error())
		told := a.out.tell(e.Err)
		a.out.warn(warningRecord{Set: set, Path: e.Path, URI: e.URI, Message: told.text, Hint: told.hint})
		return
	}
	p.showFile(e.Path)
	p.countFile(max(e.Bytes, 0))
	a.out.record(&changeRecord{Set: set, Action: string(e.Change), URI: e.URI, Path: e.Path, Bytes: optional(e.Bytes)})
	if a.out.verbose || site.DryRun {
		size := ""
		if site.DryRun && e.Bytes >= 0 && e.Change != resourcesync.Deleted {
			size = "   " + humanSize(e.Bytes)
		}
		a.out.line("%s %s%s%s", changeMark(e.Change), printable(e.Path), size, setName)
	}
}
