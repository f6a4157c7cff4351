package main

import (
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"instep/internal/publish"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

const configCheckHelp = `Config check reads a configuration file of publish and serve, and prints every value that would
be used and its origin: a line of the file, an environment variable (INSTEP_ and the name of the
flag, such as INSTEP_BASE_URL), or the default. It names the line of each error. Flags of
publish override all of these values.`

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "check a configuration file",
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

// check validates a configuration without the files of the site, and normalises BaseURL.
func (c *configuration) check() (err error) {
	if c.BaseURL == "" {
		return c.errorAt("base_url", errors.New("expected the URL at which the directory is served, found no value"))
	}
	if c.BaseURL, err = source.ParseBaseURL(c.BaseURL); err != nil {
		return c.errorAt("base_url", err)
	}
	if err := c.recogniseMirror(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range c.Sets {
		s := &c.Sets[i]
		if err := source.CheckSet(s.Name); err != nil {
			return c.errorAt(setKey(i, "name"), err)
		}
		if seen[s.Name] {
			return c.errorAt(setKey(i, "name"), fmt.Errorf("expected a different name for each set, found %q twice", s.Name))
		}
		seen[s.Name] = true
		if err := c.checkSet(i); err != nil {
			return err
		}
	}
	site := c.site()
	if site.Dir == "" && site.Out == "" {
		site.Dir = "." // a placeholder, because the directory is an argument of publish and unknown here
	}
	return c.locate(site.Check())
}

// locate extends an error about an option. It adds the place where the option was set: a line of
// the file, a flag or an environment variable.
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
			if strings.Contains(formatValue(o.set(&c.Sets[i])), oe.Value) {
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
		return c.errorAt(setKey(i, "profile"), fmt.Errorf("expected \"1.1\", \"1.0\" or \"both\" (with quotes in a file), found %q", s.Profile))
	}
	if !s.Dumps.On && s.Dumps != (dumpsConfig{}) {
		return c.errorAt(setKey(i, "dumps.package_size"), errors.New("the set has no dumps: switch dumps on with --dump, or with the key \"dumps\" in the file"))
	}
	if s.Archive.Count < 0 {
		return c.errorAt(setKey(i, "archive.count"), fmt.Errorf("expected 0 or more, found %d", s.Archive.Count))
	}
	if s.LinkFiles && len(s.From.givenKeys()) > 0 {
		return c.errorAt(setKey(i, "link_files"), errors.New("link files belong to the files of a directory, but the key \"from\" gives this set another list of resources"))
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
		return c.errorAt(key+".match", errors.New("expected a glob for paths, such as *.gz, found no value"))
	}
	if r.Type != "" && !isMediaType(r.Type) {
		return c.errorAt(key+".type", fmt.Errorf("expected a media type such as text/csv, found %q", r.Type))
	}
	if strings.ContainsFunc(r.Encoding, invalidInCoding) {
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

func (s *setConfig) checkLink(l *linkConfig) error {
	link := scan.Link(*l)
	switch {
	case !resourcesync.IsRelation(l.Rel):
		return fmt.Errorf("expected a registered relation such as describedby, or a URI, found %q", l.Rel)
	case l.Type != "" && !isMediaType(l.Type):
		return fmt.Errorf("expected a media type such as text/csv, found %q", l.Type)
	case link.OfSet() && len(s.From.givenKeys()) > 0:
		return fmt.Errorf("href %q: expected a URI; a path can lead only to a file of a directory, but the key \"from\" gives this set another list of resources", l.Href)
	}
	return link.Check()
}

func isMediaType(text string) bool {
	_, _, err := mime.ParseMediaType(text)
	return err == nil && strings.Contains(text, "/")
}

func invalidInCoding(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' && r != '.'
}

// printConfiguration leaves out values that are not set and have no default.
func (a *app) printConfiguration(c *configuration) {
	row := func(key, value, fallback string) {
		from := c.origins[key]
		if value == "" {
			value, from = fallback, "default"
		}
		if value == "" {
			return
		}
		a.hideSecretsIn(value)
		a.out.record(&statusRecord{Key: key, Value: value, Origin: from})
		a.out.line("%-26s  %-40s  (%s)", key, printable(value), from)
	}
	for _, o := range options {
		if o.site != nil {
			row(o.key, formatValue(o.site(&c.siteConfig)), o.fallback)
		}
	}
	for i := range c.Sets {
		for _, o := range options {
			if o.set != nil {
				row(setKey(i, o.key), formatValue(o.set(&c.Sets[i])), o.fallback)
			}
		}
		for n, r := range c.Sets[i].Rules {
			key := setKey(i, fmt.Sprintf("rules[%d].", n))
			row(key+"match", r.Match, "")
			row(key+"type", r.Type, "")
			row(key+"encoding", r.Encoding, "")
			row(key+"changefreq", r.ChangeFreq, "")
			row(key+"keep_links", strings.Join(r.KeepLinks, ", "), "")
			for k, l := range r.Links {
				key := fmt.Sprintf("%slinks[%d].", key, k)
				row(key+"rel", l.Rel, "")
				row(key+"href", l.Href, "")
				row(key+"type", l.Type, "")
				row(key+"pri", formatValue(&l.Pri), "")
			}
		}
		for n, r := range c.Sets[i].Aggregations {
			key := setKey(i, fmt.Sprintf("aggregations[%d].", n))
			row(key+"match", r.Match, "")
			row(key+"name", r.Name, "")
			row(key+"title", r.Title, "")
			row(key+"creator", r.Creator, "")
		}
	}
	a.out.end(summary{Status: "clean"}, fmt.Sprintf("Status: CLEAN (sets=%d)", len(c.Sets)))
}
