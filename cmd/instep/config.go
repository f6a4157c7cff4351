package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"instep/internal/aggregate"
	"instep/internal/publish"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// siteConfig is the configuration of a site for publish, record and serve.
type siteConfig struct {
	BaseURL string      `yaml:"base_url"`
	Dir     string      `yaml:"dir"`
	Out     string      `yaml:"out"`
	State   string      `yaml:"state"`
	Hash    []string    `yaml:"hash"`
	Workers int         `yaml:"workers"`
	Source  aboutConfig `yaml:"source"`
	Sets    []setConfig `yaml:"sets"`
}

// aboutConfig are the texts for people about a Source or set.
type aboutConfig struct {
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
	Contact     string `yaml:"contact"`
	Licence     string `yaml:"licence"`
}

// setConfig is the configuration of a set of resources.
type setConfig struct {
	Name          string        `yaml:"name"`
	Title         string        `yaml:"title"`
	Description   string        `yaml:"description"`
	Contact       string        `yaml:"contact"`
	Licence       string        `yaml:"licence"`
	Include       []string      `yaml:"include"`
	Exclude       []string      `yaml:"exclude"`
	Assume        []string      `yaml:"assume_unchanged"`
	AllFiles      bool          `yaml:"all_files"`
	LinkFiles     bool          `yaml:"link_files"`
	Rules         []ruleConfig  `yaml:"rules"`
	Aggregations  []groupConfig `yaml:"aggregations"`
	MaxEntries    int           `yaml:"max_entries"`
	ChangeListMax int           `yaml:"change_list_max"`
	RotateEvery   duration      `yaml:"rotate_every"`
	RebaseEvery   duration      `yaml:"rebase_every"`
	MaxDelete     string        `yaml:"max_delete"`
	KeepChanges   duration      `yaml:"keep_changes"`
	KeepVersions  retention     `yaml:"keep_versions"`
	TimeGates     bool          `yaml:"timegates"`
	Profile       string        `yaml:"profile"`
	FixedChanges  bool          `yaml:"fixed_changes"`
	Patches       bool          `yaml:"patches"`
	Dumps         dumpsConfig   `yaml:"dumps"`
	Archive       archiveConfig `yaml:"archive"`
	From          fromConfig    `yaml:"from"`
}

// ruleConfig is a rule for the files whose path matches a glob: it says what their entries in
// the documents contain.
type ruleConfig struct {
	Match      string       `yaml:"match"`
	Type       string       `yaml:"type"`
	Encoding   string       `yaml:"encoding"`
	ChangeFreq string       `yaml:"changefreq"`
	Links      []linkConfig `yaml:"links"`
	// KeepLinks are relations of links. Entries that are copied from a mirror keep their links
	// that have one of these relations.
	KeepLinks []string `yaml:"keep_links"`
}

// linkConfig is a link that a rule adds to the entries of files. Its keys have the meanings of
// the fields of scan.Link.
type linkConfig struct {
	Rel  string `yaml:"rel"`
	Href string `yaml:"href"`
	Type string `yaml:"type"`
	Pri  int    `yaml:"pri"`
}

func (r ruleConfig) rule() scan.Rule {
	rule := scan.Rule{Match: r.Match, Type: r.Type, Encoding: r.Encoding, ChangeFreq: resourcesync.ChangeFreq(r.ChangeFreq),
		KeepLinks: strings.Join(r.KeepLinks, " ")}
	for _, l := range r.Links {
		rule.Links = append(rule.Links, scan.Link(l))
	}
	return rule
}

// groupConfig groups files whose path a glob matches. Each group gets a Resource Map.
type groupConfig struct {
	Match   string `yaml:"match"`
	Name    string `yaml:"name"`
	Title   string `yaml:"title"`
	Creator string `yaml:"creator"`
}

func (s *setConfig) aggregations() []aggregate.Rule {
	rules := make([]aggregate.Rule, len(s.Aggregations))
	for i, a := range s.Aggregations {
		rules[i] = aggregate.Rule(a)
	}
	return rules
}

// choice returns the conditions that say which files belong to a set.
func (s *setConfig) choice() scan.Choice {
	return scan.Choice{Include: s.Include, Exclude: s.Exclude, AssumeUnchanged: s.Assume, AllFiles: s.AllFiles, LinkFiles: s.LinkFiles}
}

func (s *setConfig) rules() []scan.Rule {
	rules := make([]scan.Rule, len(s.Rules))
	for i, r := range s.Rules {
		rules[i] = r.rule()
	}
	return rules
}

// dumpsConfig switches Resource Dumps and Change Dumps on, and has their options.
type dumpsConfig struct {
	On          bool     `yaml:"-"`
	Every       duration `yaml:"every"`
	PackageSize size     `yaml:"package_size"`
	OnDemand    bool     `yaml:"on_demand"`
}

// UnmarshalYAML reads true, false or the options of dumps.
func (d *dumpsConfig) UnmarshalYAML(n ast.Node) error {
	type plain dumpsConfig
	return decodeSwitch(&d.On, n, (*plain)(d))
}

// archiveConfig switches archives on, and says how long they offer earlier documents.
type archiveConfig struct {
	On    bool     `yaml:"-"`
	Every duration `yaml:"every"`
	Age   duration `yaml:"age"`
	Count int      `yaml:"count"`
	Size  size     `yaml:"size"`
}

// UnmarshalYAML reads true, false or the options of archives.
func (a *archiveConfig) UnmarshalYAML(n ast.Node) error {
	type plain archiveConfig
	return decodeSwitch(&a.On, n, (*plain)(a))
}

// decodeSwitch decodes a boolean or a mapping of options. A mapping has the same effect as true.
func decodeSwitch(on *bool, n ast.Node, mapping any) error {
	if n.Type() == ast.BoolType {
		return yaml.NodeToValue(n, on)
	}
	*on = true
	return yaml.NodeToValue(n, mapping, yaml.Strict())
}

// duration is a time.Duration that a configuration file contains in the form that parseDuration
// reads.
type duration time.Duration

// UnmarshalYAML reads a duration such as 90s, 24h, 30d, 2w or 1y.
func (d *duration) UnmarshalYAML(n ast.Node) error { return decodeText(d, n) }

func (d *duration) set(text string) error {
	t, err := parseDuration(text)
	*d = duration(t)
	return err
}

func (d duration) String() string { return formatDuration(time.Duration(d)) }

// retention is a duration for which versions are kept, or publish.KeepAll.
type retention time.Duration

const retainAll = "all"

// UnmarshalYAML reads a duration, or all, true or false.
func (r *retention) UnmarshalYAML(n ast.Node) error { return decodeText(r, n) }

func (r *retention) set(text string) error {
	switch text {
	case retainAll, "true":
		*r = retention(publish.KeepAll)
		return nil
	case "false":
		*r = 0
		return nil
	}
	t, err := parseDuration(text)
	if err != nil {
		err = fmt.Errorf("%w (or all)", err)
	}
	*r = retention(t)
	return err
}

func (r retention) String() string {
	if time.Duration(r) == publish.KeepAll {
		return retainAll
	}
	return formatDuration(time.Duration(r))
}

// size is a number of bytes that a configuration file contains in the form that parseBytes
// reads.
type size int64

// UnmarshalYAML reads a number of bytes with or without a unit.
func (s *size) UnmarshalYAML(n ast.Node) error { return decodeText(s, n) }

func (s *size) set(text string) error {
	n, err := parseBytes(text)
	*s = size(n)
	return err
}

func (s size) String() string {
	switch {
	case s > 0 && s%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", s>>30)
	case s > 0 && s%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", s>>20)
	}
	return strconv.FormatInt(int64(s), 10)
}

// decodeText decodes a value that is written as a text or a number in YAML.
func decodeText(value interface{ set(string) error }, n ast.Node) error {
	var text string
	if err := yaml.NodeToValue(n, &text); err != nil {
		return err
	}
	if err := value.set(text); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	return nil
}

// splitList splits a list at commas.
func splitList(text string) (list []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func (c aboutConfig) about() source.About { return source.About(c) }
