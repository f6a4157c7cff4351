package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"instep/discover"
	"instep/fetch"
	"instep/internal/catalog"
	"instep/lint"
	"instep/lint/inputs"
	"instep/resourcesync"
)

const lintHelp = `Lint checks ResourceSync documents against the standard. It says what is wrong, where, which
rule is broken, and how to fix it.

Lint accepts files, directories, URLs, and - for standard input. It checks XML documents, plain
or compressed with gzip; the manifests of ZIP packages; and the links to a Source in HTML pages
and robots.txt. In a directory it checks all these files.

Given the URL of a site or page, lint finds its Source like sync does, and checks the Source
Description, the Capability Lists, and the first document of every list. A site without a Source
is an error (exit code 3). A site that blocks programs cannot be checked (exit code 5).

Given the URL of a document, lint checks only this document, but also whether the Source can be
found from its host, and which Sitemaps robots.txt names. --static sends a single request.

For each of these documents lint also checks how it is served, and whether the resources that it
lists are served as described: a sample of --sample entries, or --all. A line says how many of the
entries were requested, unless all were. Of a list of more than 512 KiB at a site lint checks only
the beginning, and requests no resources.

Lint applies the rules of version 1.1. With --profile auto it applies to each document the rules
of that document's own version. With --profile ore-alpha it checks how pages, feeds, Sitemaps
and Resource Maps make the Resource Maps of OAI-ORE discoverable; for a URL it follows the
links, with about two requests for each of --sample maps.

Exit code 3 if there is a finding at or above the level of --fail-on, 5 if nothing could be
reached, 1 if nothing could be checked, 4 if some documents could not be
checked.`

type lintFlags struct {
	accessFlags
	profile, failOn, format string
	derived, static, all    bool
	sample                  int
	ignore                  []string
	rules                   bool
	explain, maxDocument    string
}

func (a *app) lintCommand() *cobra.Command {
	var f lintFlags
	cmd := &cobra.Command{
		Use:   "lint PATH|URL|-...",
		Short: "check ResourceSync documents",
		Long:  lintHelp,
		Example: `  instep lint ./site
  instep lint https://museum.example.org/
  instep lint https://museum.example.org/.well-known/resourcesync
  instep lint --all https://museum.example.org/resourcesync/resourcelist.xml
  instep lint --format sarif ./site > findings.sarif
  instep lint --explain changelist-order-datetime`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.lint(cmd, args, &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.profile, "profile", string(lint.Profile11), "the `EDITION` of the standard: 1.1, 1.0, archives-0.9.1, mid-2013, dlib-2013, ore-alpha or auto")
	fs.BoolVar(&f.derived, "derived", false, "also report recommendations (warning, info) that the standard only implies; implied errors are always reported")
	fs.StringArrayVar(&f.ignore, "ignore", nil, "do not check this `RULE` (repeatable)")
	fs.StringVar(&f.failOn, "fail-on", "error", "lowest `LEVEL` of a finding for exit code 3: error, warning or info")
	fs.StringVar(&f.format, "format", "text", "`FORMAT` of the output: text, json (as --json does) or sarif")
	fs.IntVar(&f.sample, "sample", lint.DefaultSample, "request up to `N` resources that a document at a URL lists")
	fs.BoolVar(&f.all, "all", false, "request every resource that a document at a URL lists")
	fs.BoolVar(&f.static, "static", false, "check only the document at a URL, and none that it links")
	f.accessFlags.register(cmd)
	fs.StringVar(&f.maxDocument, "max-document", "", maxDocumentUsage)
	fs.BoolVar(&f.rules, "rules", false, "list all rules, or only those of --profile")
	fs.StringVar(&f.explain, "explain", "", "explain what a `RULE` demands and how to follow it")
	return cmd
}

func (a *app) lint(cmd *cobra.Command, args []string, f *lintFlags) error {
	set, err := a.lintSettings(f)
	if err != nil {
		return err
	}
	switch {
	case f.explain != "" && !f.rules && len(args) == 0:
		return a.explainRule(f.explain)
	case f.rules && f.explain == "" && len(args) == 0:
		var only lint.Profile
		if cmd.Flags().Changed("profile") {
			only = set.profile
		}
		return a.listRules(only)
	case f.rules || f.explain != "":
		return usagef("--rules and --explain take no PATH or URL: instep lint --explain RULE")
	case len(args) == 0:
		return usagef("PATH|URL|- is missing (see instep lint --help)")
	}
	if err := checkSchemes(args); err != nil {
		return err
	}
	l := &linter{a: a, begin: a.now(), failOn: set.failOn, lintReporter: a.newLintReporter(f.format)}
	l.inputs = inputs.Linter{
		Checker: lint.Checker{Limits: set.limits, Profile: set.profile, Derived: f.derived, Disabled: set.disabled, Report: l.finding},
		Report:  l, Sample: set.sample, AllowOrigins: f.allowOrigin, Now: a.now, Open: openDocument, IsState: inState,
		Connect: func(ctx context.Context, uri string) (*fetch.Client, error) {
			return a.connect(ctx, uri, &sourceFlags{workers: 1, accessFlags: f.accessFlags, maxDocument: f.maxDocument}, &l.net)
		},
	}
	l.private = map[string]int64{}
	defer l.close()
	for _, arg := range args {
		if err = l.inputs.Check(cmd.Context(), arg); err != nil {
			break
		}
	}
	l.warnOfPrivate()
	if err != nil {
		return err
	}
	return l.end()
}

func checkSchemes(args []string) error {
	for _, arg := range args {
		if inputs.IsURL(arg) {
			if _, err := fetch.Parse(arg); err != nil {
				return usagef("%v", err) // may be printed, because the error quotes the URL without its password
			}
		}
	}
	return nil
}

// inState reports whether a path is a state directory or inside of one. A state directory is
// named .instep, or contains a catalog.
func inState(path string) bool {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".instep") {
		return true
	}
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		if catalog.IsStateName(filepath.Base(at)) && isState(filepath.Dir(at)) {
			return true
		}
	}
	return isState(path)
}

// isState returns false for a directory that cannot be read.
func isState(dir string) bool {
	found, err := catalog.IsState(dir, os.Stat, os.Open)
	return found && err == nil
}

type lintSettings struct {
	profile  lint.Profile
	failOn   lint.Level
	disabled map[string]bool
	sample   int // the number of entries to request; negative means all
	limits   resourcesync.Limits
}

func (a *app) lintSettings(f *lintFlags) (s lintSettings, err error) {
	if s.profile, err = lint.ParseProfile(f.profile); err != nil {
		return s, usagef("--profile: %v", err)
	}
	if err := s.failOn.UnmarshalText([]byte(f.failOn)); err != nil {
		return s, usagef("--fail-on: %v", err)
	}
	switch {
	case f.sample < 1:
		return s, usagef("--sample %d: expected 1 or more; --static requests none", f.sample)
	case f.all && f.static:
		return s, usagef("--all and --static exclude each other")
	case f.all:
		s.sample = -1
	case !f.static:
		s.sample = f.sample
	}
	maxDocument, err := parseSize("--max-document", f.maxDocument)
	if err != nil {
		return s, err
	}
	if maxDocument > 0 {
		s.limits = lint.LimitsFor(maxDocument)
	}
	s.disabled = map[string]bool{}
	for _, id := range f.ignore {
		if _, err := lookUp(id); err != nil {
			return s, usagef("--ignore: %v", err)
		}
		s.disabled[id] = true
	}
	return s, a.chooseFormat("lint", f.format)
}

// linter is one run of lint. It implements inputs.Reporter.
type linter struct {
	lintReporter
	a      *app
	begin  time.Time
	failOn lint.Level
	inputs inputs.Linter
	net    traffic

	counts    [lint.Error + 1]int64 // the number of findings, by level
	unchecked int64                 // the number of unchecked URIs in the present document, apart from URIs at private addresses
	private   map[string]int64      // the number of URIs at private addresses, by host:port as --allow-private expects it
	unreached bool                  // whether at least one document could not be fetched for a temporary reason
	site      string                // the site, if the last document is at the well-known URI of that site; else ""
}

func (l *linter) finding(f lint.Finding) {
	l.counts[f.Level]++
	l.lintReporter.finding(f)
}

// Unchecked warns that a URI in a document was not checked. In text output without -v it warns of
// only the first few URIs of each document, and only counts the URIs at private addresses.
func (l *linter) Unchecked(uri string, err error) {
	all := l.a.out.verbose || l.a.out.json
	if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.AllowPrivate != "" && !all {
		l.private[fe.AllowPrivate]++
		return
	}
	l.unchecked++
	if l.unchecked <= maxFindings || all {
		l.a.out.warn(warningRecord{URI: uri, Message: "not checked: " + err.Error()})
	}
}

func (l *linter) warnOfPrivate() {
	for at, n := range sortedByName(l.private) {
		l.a.out.warn(warningRecord{
			Message: fmt.Sprintf("not checked: %s at %s, because this host has no public address", counted(n, "URI"), at),
			Hint:    "to check these URIs: --allow-private " + at + "; -v names all",
		})
	}
}

func (l *linter) Begin(in *inputs.Input) {
	l.unchecked = 0
	l.lintReporter.Begin(in)
}

func (l *linter) Document(d lint.Document) error {
	if more := l.unchecked - maxFindings; more > 0 && !l.a.out.verbose && !l.a.out.json {
		l.a.out.warn(warningRecord{Message: fmt.Sprintf("not checked: %s more in %s", humanize.Comma(more), d.URI), Hint: "-v names all"})
	}
	l.site, _ = strings.CutSuffix(d.URI, wellKnown)
	if l.site == d.URI || !inputs.IsURL(d.URI) {
		l.site = ""
	}
	return l.lintReporter.Document(d)
}

const wellKnown = ".well-known/resourcesync"

func (l *linter) Note(uri, text string) { l.a.out.say("%s: %s", uri, text) }

// Found reports the URLs at which the program looked for the Source of a site. The Source was
// found at the last of them.
func (l *linter) Found(site string, tried []discover.Attempt) {
	for _, t := range tried {
		l.a.out.record(&statusRecord{Message: fmt.Sprintf("%s %s: %s", t.Way, t.URL, t.Outcome)})
	}
	if !l.a.out.json {
		l.a.out.say("%s: the Source was found at %s", site, tried[len(tried)-1].URL)
	}
}

// Failed reports a document that could not be checked. If the reason is a wrong command line, Failed
// returns the error, and the run ends.
func (l *linter) Failed(ctx context.Context, uri string, err error) error {
	code, hint := explain(ctx, err)
	if code == exitUsage {
		return err
	}
	l.unreached = l.unreached || code == exitTemporary
	l.failed(uri, err, hint)
	return nil
}

func (l *linter) close() {
	l.lintReporter.close()
	l.inputs.Close()
}

// exitCode returns the exit code of a run that was not interrupted.
func (l *linter) exitCode() int {
	switch {
	case l.inputs.Blocked, l.inputs.Checked == 0 && l.unreached:
		return exitTemporary
	case l.inputs.Checked == 0:
		return exitFailed
	case l.inputs.Failed > 0:
		return exitPartial
	case l.inputs.Sourceless:
		return exitDifferences
	}
	for level := l.failOn; level <= lint.Error; level++ {
		if l.counts[level] > 0 {
			return exitDifferences
		}
	}
	return exitOK
}

func (l *linter) end() error {
	code := l.exitCode()
	l.a.code = code
	s := summary{
		Status: l.status(code), Checked: num(l.inputs.Checked), Failed: num(l.inputs.Failed),
		Errors: num(l.counts[lint.Error]), Warnings: num(l.counts[lint.Warning]), Infos: num(l.counts[lint.Info]),
		Seconds: seconds(l.a.now().Sub(l.begin)), ExitCode: code,
	}
	if l.inputs.Requested() {
		s.Requests = num(l.net.requests.Load())
	}
	line := fmt.Sprintf("Status: %s (documents=%s, errors=%s, warnings=%s, infos=%s, failed=%s)", words[s.Status],
		humanize.Comma(l.inputs.Checked), humanize.Comma(l.counts[lint.Error]), humanize.Comma(l.counts[lint.Warning]), humanize.Comma(l.counts[lint.Info]), humanize.Comma(l.inputs.Failed))
	if l.inputs.Checked == 1 && l.site != "" {
		l.a.out.say("Only this document was checked; the whole Source: instep lint %s", shellLine(l.site))
	}
	return l.lintReporter.end(s, line)
}

func (l *linter) status(code int) string {
	switch {
	case l.inputs.Checked == 0, l.inputs.Blocked:
		return "failed"
	case l.counts[lint.Error]+l.counts[lint.Warning] > 0 || code == exitDifferences:
		return "findings"
	case l.inputs.Failed > 0:
		return "partial"
	}
	return "clean"
}

func lookUp(id string) (lint.Rule, error) {
	if r, ok := lint.Lookup(id); ok {
		return r, nil
	}
	text := fmt.Sprintf("there is no rule %q", id)
	if like := similarRules(id); len(like) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(like[:min(len(like), 5)], ", "))
	}
	return lint.Rule{}, errors.New(text + " (instep lint --rules lists them)")
}

// similarRules returns the ids of the rules whose id contains a text. The ids that begin with the
// text come first.
func similarRules(text string) []string {
	var begin, within []string
	for _, r := range lint.Rules() {
		switch {
		case text == "" || !strings.Contains(r.ID, text):
		case strings.HasPrefix(r.ID, text):
			begin = append(begin, r.ID)
		default:
			within = append(within, r.ID)
		}
	}
	return append(begin, within...)
}
