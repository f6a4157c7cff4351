package main

import (
	"errors"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"instep/internal/publish"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

const configCheckHelp = `Config check reads a configuration file of publish and serve and prints every value
that would be used, with where it is from: a line of the file, a variable of the
environment (INSTEP_ and the name of the flag: INSTEP_BASE_URL), or the default. What
is wrong is named with its line. Flags of publish go over all of it.`

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "look at a configuration file",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args:  knownCommand,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "check FILE",
		Short:   "print the effective values of a configuration file",
		Long:    configCheckHelp,
		Example: `  instep config check site.yaml`,
		Args:    exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := configure(cmd, args[0], "")
			if err != nil {
				return err
			}
			if err := c.check(); err != nil {
				return err
			}
			a.printConfiguration(c)
			return nil
		},
	})
	return cmd
}

// check validates the configuration without examining the site, and normalises the base
// URL.
func (c *configuration) check() (err error) {
	if c.BaseURL == "" {
		return c.errorAt("base_url", errors.New("is missing: the URL at which the directory is served"))
	}
	if c.BaseURL, err = source.ParseBaseURL(c.BaseURL); err != nil {
		return c.errorAt("base_url", err)
	}
	if err := c.recognise(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range c.Sets {
		s := &c.Sets[i]
		if err := source.CheckSet(s.Name); err != nil {
			return c.errorAt(setKey(i, "name"), err)
		}
		if seen[s.Name] {
			return c.errorAt(setKey(i, "name"), fmt.Errorf("two sets are called %q: give each a name of its own", s.Name))
		}
		seen[s.Name] = true
		if err := c.checkSet(i); err != nil {
			return err
		}
	}
	site := c.site()
	if site.Dir == "" && site.Out == "" {
		site.Dir = "." // the command line may still set it
	}
	return c.locate(site.Check())
}

// locate adds to an error where the invalid value was given.
func (c *configuration) locate(err error) error {
	var oe *publish.OptionError
	if !errors.As(err, &oe) {
		return err
	}
	found := fmt.Errorf("%q: %w", oe.Value, oe.Err)
	for _, o := range options {
		switch {
		case o.flag != oe.Option:
			continue
		case o.site != nil:
			return c.errorAt(o.key, found)
		}
		for i := range c.Sets {
			if strings.Contains(show(o.set(&c.Sets[i])), oe.Value) {
				return c.errorAt(setKey(i, o.key), found)
			}
		}
	}
	for i := range c.Sets {
		for n, r := range c.Sets[i].Rules {
			if oe.Option == "rules" && r.Match == oe.Value {
				return c.errorAt(setKey(i, fmt.Sprintf("rules[%d].match", n)), found)
			}
		}
		for n, r := range c.Sets[i].aggregations() {
			if oe.Option == "aggregations" && r.Match == oe.Value && r.Check() != nil {
				return c.errorAt(setKey(i, fmt.Sprintf("aggregations[%d].match", n)), found)
			}
		}
	}
	return err
}

func (c *configuration) checkSet(i int) error {
	s := &c.Sets[i]
	if !slices.Contains([]string{"", profile11, profile10, profileBoth}, s.Profile) {
		return c.errorAt(setKey(i, "profile"), fmt.Errorf("expected 1.0 or 1.1 (in a file in quotes) or both, found %q", s.Profile))
	}
	if !s.Dumps.On && s.Dumps != (dumpsConfig{}) {
		return c.errorAt(setKey(i, "dumps.package_size"), errors.New("there are no dumps: switch them on with --dump, or dumps in the file"))
	}
	if s.Archive.Count < 0 {
		return c.errorAt(setKey(i, "archive.count"), fmt.Errorf("expected 0 or more, found %d", s.Archive.Count))
	}
	if s.LinkFiles && len(s.From.given()) > 0 {
		return c.errorAt(setKey(i, "link_files"), errors.New("the set is listed elsewhere: there are no files beside its resources"))
	}
	if key, err := s.From.check(); err != nil {
		return c.errorAt(strings.TrimSuffix(setKey(i, "from."+key), "."), err)
	}
	for n := range s.Rules {
		if err := c.checkRule(s, &s.Rules[n], setKey(i, fmt.Sprintf("rules[%d]", n))); err != nil {
			return err
		}
	}
	return nil
}

func (c *configuration) checkRule(s *setConfig, r *ruleConfig, key string) error {
	if r.Match == "" {
		return c.errorAt(key+".match", errors.New("is missing: a glob on the path, such as *.gz"))
	}
	if r.Type != "" && !isMediaType(r.Type) {
		return c.errorAt(key+".type", fmt.Errorf("expected a media type such as text/csv, found %q", r.Type))
	}
	if strings.ContainsFunc(r.Encoding, notOfACoding) {
		return c.errorAt(key+".encoding", fmt.Errorf("expected a content coding such as gzip or br, found %q", r.Encoding))
	}
	if f := r.rule().ChangeFreq; f != "" && !f.Known() {
		return c.errorAt(key+".changefreq", fmt.Errorf("expected always, hourly, daily, weekly, monthly, yearly or never, found %q", f))
	}
	for n := range r.Links {
		if err := s.checkLink(&r.Links[n]); err != nil {
			return c.errorAt(fmt.Sprintf("%s.links[%d].rel", key, n), err)
		}
	}
	return nil
}

// checkLink returns an error for an invalid link of a rule.
func (s *setConfig) checkLink(l *linkConfig) error {
	link := scan.Link(*l)
	switch {
	case !resourcesync.IsRelation(l.Rel):
		return fmt.Errorf("expected a registered relation such as describedby, or a URI, found %q", l.Rel)
	case l.Type != "" && !isMediaType(l.Type):
		return fmt.Errorf("expected a media type such as text/csv, found %q", l.Type)
	case link.OfSet() && len(s.From.given()) > 0:
		return fmt.Errorf("href %q: the set is listed elsewhere, so that nothing is known of its other files: expected a URI", l.Href)
	}
	return link.Check()
}

func isMediaType(text string) bool {
	_, _, err := mime.ParseMediaType(text)
	return err == nil && strings.Contains(text, "/")
}

// notOfACoding reports whether r is not allowed in the name of a content coding.
func notOfACoding(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.'
}

// printConfiguration prints each value and its origin. It leaves out values that are
// not set and have no default.
func (a *app) printConfiguration(c *configuration) {
	one := func(key string, o option, value string) {
		from := c.origins[key]
		if value == "" {
			value, from = o.fallback, "default"
		}
		if value == "" {
			return
		}
		a.out.record(&statusRecord{Key: key, Value: value, Origin: from})
		a.out.line("%-26s  %-40s  (%s)", key, printable(value), from)
	}
	for _, o := range options {
		if o.site != nil {
			one(o.key, o, show(o.site(&c.siteConfig)))
		}
	}
	for i := range c.Sets {
		for _, o := range options {
			if o.set != nil {
				one(setKey(i, o.key), o, show(o.set(&c.Sets[i])))
			}
		}
		for n, r := range c.Sets[i].Rules {
			one(setKey(i, fmt.Sprintf("rules[%d].match", n)), option{}, r.Match)
			one(setKey(i, fmt.Sprintf("rules[%d].type", n)), option{}, r.Type)
			one(setKey(i, fmt.Sprintf("rules[%d].encoding", n)), option{}, r.Encoding)
			one(setKey(i, fmt.Sprintf("rules[%d].changefreq", n)), option{}, r.ChangeFreq)
			one(setKey(i, fmt.Sprintf("rules[%d].keep_links", n)), option{}, strings.Join(r.KeepLinks, ", "))
			for k, l := range r.Links {
				key := setKey(i, fmt.Sprintf("rules[%d].links[%d].", n, k))
				one(key+"rel", option{}, l.Rel)
				one(key+"href", option{}, l.Href)
				one(key+"type", option{}, l.Type)
				if l.Pri > 0 {
					one(key+"pri", option{}, strconv.Itoa(l.Pri))
				}
			}
		}
		for n, r := range c.Sets[i].Aggregations {
			key := setKey(i, fmt.Sprintf("aggregations[%d].", n))
			one(key+"match", option{}, r.Match)
			one(key+"name", option{}, r.Name)
			one(key+"title", option{}, r.Title)
			one(key+"creator", option{}, r.Creator)
		}
	}
	a.out.end(summary{Status: "clean"}, fmt.Sprintf("Status: CLEAN (sets=%d)", len(c.Sets)))
}
