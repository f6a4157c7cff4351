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

type aboutConfig struct {
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
	Contact     string `yaml:"contact"`
	Licence     string `yaml:"licence"`
}

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

type ruleConfig struct {
	Match      string       `yaml:"match"`
	Type       string       `yaml:"type"`
	Encoding   string       `yaml:"encoding"`
	ChangeFreq string       `yaml:"changefreq"`
	Links      []linkConfig `yaml:"links"`
	// KeepLinks lists relations. When a mirror is published, links with these relations are
	// copied, too, although they are about the original resource only.
	KeepLinks []string `yaml:"keep_links"`
}

// linkConfig must have the fields of scan.Link, because it is converted to that type.
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

// groupConfig groups the files whose path matches a glob. Each group gets a Resource Map.
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

// decodeSwitch decodes the value of a key that may have options. It decodes true or false into
// *enabled. It decodes a mapping into *options, and sets *enabled to true.
func decodeSwitch(enabled *bool, n ast.Node, options any) error {
	if n.Type() == ast.BoolType {
		return yaml.NodeToValue(n, enabled)
	}
	*enabled = true
	return yaml.NodeToValue(n, options, yaml.Strict())
}

// duration is a time.Duration in a configuration file, written as parseDuration reads it.
type duration time.Duration

// UnmarshalYAML reads a duration such as 90s, 24h, 30d, 2w or 1y.
func (d *duration) UnmarshalYAML(n ast.Node) error { return decodeText(d, n) }

func (d *duration) set(text string) error {
	t, err := parseDuration(text)
	*d = duration(t)
	return err
}

func (d duration) String() string { return formatDuration(time.Duration(d)) }

// retention is how long earlier versions of resources are kept: a duration, or publish.KeepAll.
type retention time.Duration

const retainAll = "all"

// UnmarshalYAML reads a duration, "all", true or false.
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

// size is a number of bytes in a configuration file, written as parseBytes reads it.
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

func splitList(text string) (list []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func (c aboutConfig) toAbout() source.About { return source.About(c) }
