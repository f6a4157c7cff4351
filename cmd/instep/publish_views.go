package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/dustin/go-humanize"

	"instep/internal/publish"
	"instep/source"
)

// show prints the lines that let others find the publication. They belong in files of
// the user, so the program does not write them itself.
func (a *app) show(c *configuration, view string) error {
	site, err := openSite(c.publishedDirs())
	if err != nil {
		return err
	}
	defer site.close()
	p, err := source.ReadPublished(site.dirs)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("nothing is published in %s yet: publish first, then ask for the lines", strings.Join(c.publishedDirs(), " and "))
	}
	if err != nil {
		return err
	}
	var text string
	switch view {
	case "robots":
		text = p.Robots()
	case "html":
		text = p.HTML()
	default:
		return usagef("--show %q: expected robots or html", view)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		a.out.record(&statusRecord{Message: line})
	}
	if a.out.json {
		a.out.end(summary{Status: "clean"}, "")
		return nil
	}
	_, err = io.WriteString(a.stdout, text)
	return err
}

// publishedDirs returns the directories that are served as one.
func (c *configuration) publishedDirs() (dirs []string) {
	for _, dir := range []string{c.Dir, c.Out} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// zip packs the published documents into a file.
func (a *app) zip(ctx context.Context, s *publish.Session, site *publish.Site, file string) error {
	if site.DryRun {
		a.out.say("a dry run packs nothing into %s", file)
		return nil
	}
	err := writeWhole(ctx, file, func(w io.Writer) error { return s.WriteZIP(ctx, w) })
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("looking at the package of documents: %w", err)
	}
	a.out.record(&statusRecord{Path: file, Bytes: num(info.Size())})
	a.out.say("The documents are packed in %s (%s): unpack it where %s leads to", file, humanize.Bytes(uint64(info.Size())), site.BaseURL)
	return nil
}
