package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"instep/internal/publish"
	"instep/source"
)

// show prints lines for robots.txt or HTML pages instead of writing them, because these files
// belong to the user.
func (a *app) show(c *configuration, view string) error {
	if err := choose("show", view); err != nil {
		return err
	}
	site, err := openSite(c.publishedDirs())
	if err != nil {
		return err
	}
	defer site.close()
	p, err := source.ReadPublished(site.dirs)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("nothing is published in %s yet: publish first, then use --show", strings.Join(c.publishedDirs(), " and "))
	}
	if err != nil {
		return err
	}
	text := p.Robots()
	if view == "html" {
		text = p.HTML()
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

func (c *configuration) publishedDirs() (dirs []string) {
	for _, dir := range []string{c.Dir, c.Out} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (a *app) packDocuments(ctx context.Context, s *publish.Session, site *publish.Site, file string) error {
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
		return fmt.Errorf("read the size of the package of documents: %w", err)
	}
	a.out.record(&statusRecord{Path: file, Bytes: num(info.Size())})
	a.out.say("The documents are packed in %s (%s): unpack this file on the web server, in the directory of %s", file, humanSize(info.Size()), site.BaseURL)
	return nil
}
