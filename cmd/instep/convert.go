package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/internal/convert"
	"instep/internal/durable"
	"instep/resourcesync"
)

type convertFlags struct {
	out, dialect, baseURL, up, at, from string
	gzip, dryRun                        bool
}

const convertHelp = `Convert reads a ResourceSync document of any dialect and writes it as a valid document of
version 1.1. It reads documents of 1.0, the drafts of 2013 (also those in Atom and in their own
XML), plain Sitemaps, and documents of 1.1 with common mistakes. FILE may be compressed; - is
standard input. The result goes to standard output, or to --out FILE, which may be FILE itself.
An error leaves that file unchanged.

Convert reports each decision on standard error: the line of FILE, what was there, and what was
written instead. It reports the same decision at most 20 times. With -v it reports all, and also
unusual things that 1.1 allows.

Convert invents no time. If a Resource List has no "at" attribute, or a Change List no "from"
attribute, and the document contains no time to derive it from, give the time with --at or
--from. Entries that cannot be used are left out and named: those without a URI, those with a
relative URI if --base-url is not given, and those that link a patch where 1.1 requires the
whole resource. The exit code is then 4.

A manifest in several documents becomes one document. Convert reads its parts from the directory
of FILE, which must be the root of the package.`

func (a *app) convertCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "convert a document of any dialect to ResourceSync 1.1",
		Long:  convertHelp,
		Example: `  instep convert changelist.xml > changelist-1.1.xml
  instep convert manifest.xml --out manifest.xml
  instep convert -n sitemap.xml --up https://museum.example.org/capabilitylist.xml`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.convert(cmd.Context(), args[0], &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.out, "out", "o", "", "write the result to this `FILE` instead of standard output")
	fs.StringVar(&f.dialect, "dialect", "auto", fmt.Sprintf("dialect of FILE: auto, %s; auto recognises all of them except 1.0", strings.Join(dialectNames(), ", ")))
	fs.StringVar(&f.baseURL, "base-url", "", "`URL` of FILE, against which relative URIs are resolved")
	fs.StringVar(&f.up, "up", "", "`URL` of the document to which rel=\"up\" links, if FILE does not give one: the Capability List or, for a Capability List, the Source Description")
	fs.StringVar(&f.at, "at", "", "`DATETIME` of the snapshot, if FILE does not give one")
	fs.StringVar(&f.from, "from", "", "`DATETIME` from which the changes are listed, if FILE does not give one")
	fs.BoolVar(&f.gzip, "gzip", false, "compress the result")
	fs.BoolVarP(&f.dryRun, "dry-run", "n", false, "show the decisions of the conversion; write nothing")
	return cmd
}

// dialects are the values of --dialect, apart from auto.
var dialects = []resourcesync.Dialect{
	resourcesync.Dialect11, resourcesync.Dialect10, resourcesync.DialectMid2013,
	resourcesync.DialectDLib, resourcesync.DialectAtom, resourcesync.DialectResync,
}

func dialectNames() []string {
	var names []string
	for _, d := range dialects {
		names = append(names, d.String())
	}
	return names
}

func (a *app) convertOptions(f *convertFlags, json bool) (o convert.Options, err error) {
	if json && f.out == "" && !f.dryRun {
		return o, usagef("the records of --json and the document can't both go to standard output: give --out FILE, or -n to see only the decisions")
	}
	if f.dialect != "auto" {
		i := slices.Index(dialectNames(), f.dialect)
		if i < 0 {
			return o, usagef("--dialect %q: expected auto, %s", f.dialect, strings.Join(dialectNames(), ", "))
		}
		o.Dialect = &dialects[i]
	}
	if o.At, err = a.parseDatetime("at", f.at); err != nil {
		return o, err
	}
	if o.From, err = a.parseDatetime("from", f.from); err != nil {
		return o, err
	}
	if _, err := absoluteURL("--up", f.up); err != nil {
		return o, err
	}
	o.Up, o.Gzip = f.up, f.gzip
	o.BaseURL, err = absoluteURL("--base-url", f.baseURL)
	return o, err
}

// absoluteURL parses the value of a flag, and returns nil for "".
func absoluteURL(flag, value string) (*url.URL, error) {
	if value == "" {
		return nil, nil
	}
	u, err := url.Parse(value)
	if err != nil || !u.IsAbs() || u.Opaque != "" {
		return nil, usagef("%s %q: expected an absolute URL, such as https://museum.example.org/", flag, value)
	}
	return u, nil
}

func (a *app) convert(ctx context.Context, file string, f *convertFlags) (err error) {
	begin := a.now()
	o, err := a.convertOptions(f, a.out.json)
	if err != nil {
		return err
	}
	in, err := openDocument(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	o.Name = file
	if file == "-" {
		o.Name = "standard input"
	} else {
		o.Open = func(path string) (io.ReadCloser, error) { return openPart(filepath.Dir(file), path) }
	}
	told := decisions{out: a.out, name: o.Name}
	o.Decide = told.tell
	rep, err := a.convertTo(ctx, in, f, o)
	told.end()
	if err != nil {
		return err
	}
	a.reportConvert(&rep, o.Name, f, a.now().Sub(begin))
	return nil
}

func (a *app) convertTo(ctx context.Context, in io.Reader, f *convertFlags, o convert.Options) (convert.Report, error) {
	switch {
	case f.dryRun:
		return convert.Document(ctx, in, io.Discard, o)
	case f.out == "":
		return convert.Document(ctx, in, a.stdout, o)
	}
	var rep convert.Report
	err := writeWhole(ctx, f.out, func(w io.Writer) (err error) {
		rep, err = convert.Document(ctx, in, w, o)
		return err
	})
	return rep, err
}

// inputError marks an error of opening the FILE on the command line, because explain has a hint
// for it.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// openDocument opens the FILE on the command line. Reading stops when ctx is done, even if
// FILE is a pipe that sends nothing.
func openDocument(ctx context.Context, file string) (io.ReadCloser, error) {
	f := os.Stdin
	if file != "-" {
		var err error
		if f, err = os.Open(file); err != nil {
			return nil, &inputError{err}
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, errors.Join(usagef("%s is a directory; expected a document", file), f.Close())
		}
	}
	r, w := io.Pipe()
	go func() {
		// A read from an idle terminal cannot be cancelled, so the goroutine may end only
		// with the program.
		_, err := io.Copy(w, f)
		_ = w.CloseWithError(err) // always nil
	}()
	stop := context.AfterFunc(ctx, func() { _ = r.CloseWithError(context.Cause(ctx)) })
	return &document{r, f, stop}, nil
}

type document struct {
	*io.PipeReader
	f    *os.File
	stop func() bool
}

func (d *document) Close() error {
	d.stop()
	return errors.Join(d.PipeReader.Close(), d.f.Close())
}

// openPart opens a file in the directory of a manifest, and no file outside of it.
func openPart(dir, path string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f, err := durable.OpenRegular(root, filepath.FromSlash(path))
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, root.Close()
}

// maxRepeated is the largest number of decisions of the same kind that are printed.
const maxRepeated = 20

type decisions struct {
	out   *output
	name  string
	kinds map[string]*repeated
	order []*repeated
}

type repeated struct {
	first string // text of the first decision of the kind
	n     int64
}

func (t *decisions) tell(d convert.Decision) {
	if t.out.json {
		t.record(d)
		return
	}
	if d.Level == convert.Info && !t.out.verbose {
		return
	}
	// Decisions are of the same kind if their level, their rule and their text before the first
	// quotation mark are equal. The text is not compared for errors, whose texts always differ.
	kind := string(d.Level) + d.Rule
	if d.Level != convert.Error {
		before, _, _ := strings.Cut(d.Text, `"`)
		kind += " " + before
	}
	r := t.kinds[kind]
	if r == nil {
		if t.kinds == nil {
			t.kinds = map[string]*repeated{}
		}
		r = &repeated{first: d.Text}
		t.kinds[kind] = r
		t.order = append(t.order, r)
	}
	if r.n++; r.n > maxRepeated && !t.out.verbose {
		return
	}
	if d.Level == convert.Error {
		t.out.message("instep: " + d.String())
		return
	}
	t.out.say("%s", d)
}

func (t *decisions) record(d convert.Decision) {
	if d.Rule == "" {
		t.out.warn(warningRecord{Message: d.String(), URI: t.name})
		return
	}
	r := findingRecord{Rule: d.Rule, Level: string(d.Level), URI: t.name, Line: d.Line, Entry: d.URI, Message: d.Text}
	if d.Part != "" {
		r.URI = d.Part
	}
	t.out.record(&r)
}

func (t *decisions) end() {
	for _, r := range t.order {
		if r.n > maxRepeated && !t.out.verbose {
			t.out.say("and %s more like this: %s", humanize.Comma(r.n-maxRepeated), r.first)
		}
	}
}

func (a *app) reportConvert(rep *convert.Report, name string, f *convertFlags, took time.Duration) {
	status := "converted"
	if f.dryRun {
		status = "plan"
	}
	if rep.LeftOut > 0 {
		a.code = exitPartial
	}
	if rep.Decisions == 0 {
		a.out.say("no decision was needed")
	}
	line := fmt.Sprintf("Status: %s (entries=%d, decisions=%d, failed=%d)   %s of %s",
		words[status], rep.Entries, rep.Decisions, rep.LeftOut, rep.Header.Kind(), rep.Dialect)
	if f.out == "" && !f.dryRun {
		a.out.message(line) // the line is printed to standard error, since the document goes to standard output
		return
	}
	if f.out != "" && !f.dryRun {
		name = f.out
	}
	h := &rep.Header
	r := documentRecord{
		URI: name, Root: rootName(h.Root), Capability: string(h.Capability), Dialect: rep.Dialect.String(), Entries: num(rep.Entries),
		At: jsonTime(h.At), Completed: jsonTime(h.Completed), From: jsonTime(h.From), Until: jsonTime(h.Until),
		Up: h.Link(resourcesync.RelUp), Index: h.Link(resourcesync.RelIndex),
	}
	if h.Capability.Known() {
		r.Kind = h.Kind()
	}
	a.out.record(&r)
	a.out.end(summary{Status: status, Failed: num(rep.LeftOut), Bytes: num(rep.Bytes), Seconds: seconds(took), ExitCode: a.code}, line)
}

func rootName(r resourcesync.Root) string {
	if r == resourcesync.SitemapIndex {
		return "sitemapindex"
	}
	return "urlset"
}

// jsonTime formats the earliest moment that a datetime can mean, and returns "" if there is no
// datetime.
func jsonTime(d resourcesync.Datetime) string { return stamp(d.Time()) }
