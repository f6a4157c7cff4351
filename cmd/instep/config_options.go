package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// option is a value of the configuration: a key of the file, and usually also a flag
// and an environment variable. A flag for a key of a set applies to all sets.
type option struct {
	key      string // key in the file; below sets[N] if it belongs to a set
	flag     string // "" if it has no flag
	usage    string
	fallback string // description of the default, for people
	site     func(*siteConfig) any
	set      func(*setConfig) any
}

var options = []option{
	{key: "base_url", flag: "base-url", usage: "the `URL` at which DIR is served (required the first time)", site: func(c *siteConfig) any { return &c.BaseURL }},
	{key: "dir", site: func(c *siteConfig) any { return &c.Dir }},
	{key: "out", flag: "out", usage: "write the documents below this `DIR` instead of into DIR", fallback: "dir", site: func(c *siteConfig) any { return &c.Out }},
	{key: "state", flag: "state", usage: "keep what is remembered between runs in `DIR` (default: in the user's state directory)", fallback: "in the user's state directory", site: func(c *siteConfig) any { return &c.State }},
	{key: "hash", flag: "hash", usage: "`DIGESTS` to compute: sha-256, md5, sha-1, sha-224, sha-384, sha-512 (default sha-256)", fallback: "sha-256", site: func(c *siteConfig) any { return &c.Hash }},
	{key: "workers", flag: "workers", usage: "files read at a time, `N` (default: one a processor)", fallback: "one a processor", site: func(c *siteConfig) any { return &c.Workers }},
	{key: "source.title", flag: "title", usage: "what the Source is called, a `TEXT` for people", site: func(c *siteConfig) any { return &c.Source.Title }},
	{key: "source.description", flag: "description", usage: "what the Source holds, a `TEXT` for people", site: func(c *siteConfig) any { return &c.Source.Description }},
	{key: "source.contact", flag: "contact", usage: "whom to ask about the Source, a `TEXT` for people", site: func(c *siteConfig) any { return &c.Source.Contact }},
	{key: "source.licence", flag: "licence", usage: "what may be done with the resources, a `TEXT` for people", site: func(c *siteConfig) any { return &c.Source.Licence }},

	{key: "name", fallback: "the default set", set: func(s *setConfig) any { return &s.Name }},
	{key: "title", set: func(s *setConfig) any { return &s.Title }},
	{key: "description", set: func(s *setConfig) any { return &s.Description }},
	{key: "contact", set: func(s *setConfig) any { return &s.Contact }},
	{key: "licence", set: func(s *setConfig) any { return &s.Licence }},
	{key: "include", flag: "include", usage: "only files that match this `GLOB`, as in .gitignore: *.png, /x.png, a/ (repeatable)", fallback: "all files", set: func(s *setConfig) any { return &s.Include }},
	{key: "exclude", flag: "exclude", usage: "no files or directories that match this `GLOB` (repeatable)", set: func(s *setConfig) any { return &s.Exclude }},
	{key: "assume_unchanged", flag: "assume-unchanged", usage: "do not look at files and directories that match this `GLOB`: they stay published as they are (repeatable)", set: func(s *setConfig) any { return &s.Assume }},
	{key: "all_files", flag: "all-files", usage: "also publish what systems and editors leave behind: Thumbs.db, desktop.ini, ~$*, *~, #*#", fallback: "false", set: func(s *setConfig) any { return &s.AllFiles }},
	{key: "link_files", flag: "link-files", usage: "a file NAME.links.json has links of the file NAME, and is no resource itself", fallback: "false", set: func(s *setConfig) any { return &s.LinkFiles }},
	{key: "max_entries", flag: "max-entries", usage: "entries that one document of a Resource List holds at most, `N` (default and upper bound: 50000)", fallback: "50000", set: func(s *setConfig) any { return &s.MaxEntries }},
	{key: "change_list_max", flag: "change-list-max", usage: "changes a Change List holds before a new one begins, `N` (default 5000)", fallback: "5000", set: func(s *setConfig) any { return &s.ChangeListMax }},
	{key: "rotate_every", flag: "rotate-every", usage: "begin a new Change List when the open one is older than this `TIME`, such as 24h or 30d", fallback: "by number alone", set: func(s *setConfig) any { return &s.RotateEvery }},
	{key: "rebase_every", flag: "rebase-every", usage: "write the Resource List anew when it is older than this `TIME`", fallback: "as changes ask for it", set: func(s *setConfig) any { return &s.RebaseEvery }},
	{key: "keep_changes", flag: "keep-changes", usage: "offer closed Change Lists for at least this `TIME` (default 30d)", fallback: "30d", set: func(s *setConfig) any { return &s.KeepChanges }},
	{key: "keep_versions", flag: "keep-versions", usage: "keep each published state of a resource at a URI of its own, for this `TIME` after it ended (--keep-versions=1y), or without a time all (\"instep help links\")", fallback: "none", set: func(s *setConfig) any { return &s.KeepVersions }},
	{key: "timegates", flag: "timegates", usage: "with --keep-versions: also link the TimeGates and TimeMaps that \"instep serve -c\" answers", fallback: "false", set: func(s *setConfig) any { return &s.TimeGates }},
	{key: "max_delete", flag: "max-delete", usage: "publish at most `N or N%` deletions", fallback: "10 % and 5, half, or all", set: func(s *setConfig) any { return &s.MaxDelete }},
	{key: "profile", flag: "profile", usage: "write what readers of this `VERSION` expect: 1.1, 1.0 or both (default 1.1)", fallback: profile11, set: func(s *setConfig) any { return &s.Profile }},
	{key: "fixed_changes", flag: "fixed-changes", usage: "add a Change List whose URI never changes, for programs that poll one URI", fallback: "false", set: func(s *setConfig) any { return &s.FixedChanges }},
	{key: "patches", flag: "patches", usage: "publish patches of changed resources as well, where one is smaller than half of its resource; the state keeps a copy of each resource for that", fallback: "false", set: func(s *setConfig) any { return &s.Patches }},
	{key: "dumps", flag: "dump", usage: "pack the resources as well: Resource Dump and Change Dumps", fallback: "false", set: func(s *setConfig) any { return &s.Dumps.On }},
	{key: "dumps.every", fallback: "as changes ask for it", set: func(s *setConfig) any { return &s.Dumps.Every }},
	{key: "dumps.package_size", flag: "package-size", usage: "bytes of resources in one package, a `SIZE` such as 500MB (default 1GiB)", fallback: "1GiB", set: func(s *setConfig) any { return &s.Dumps.PackageSize }},
	{key: "dumps.on_demand", fallback: "false", set: func(s *setConfig) any { return &s.Dumps.OnDemand }},
	{key: "archive", flag: "archive", usage: "keep offering earlier lists and dumps, in archives", fallback: "false", set: func(s *setConfig) any { return &s.Archive.On }},
	{key: "archive.every", fallback: "each", set: func(s *setConfig) any { return &s.Archive.Every }},
	{key: "archive.age", fallback: "no bound", set: func(s *setConfig) any { return &s.Archive.Age }},
	{key: "archive.count", fallback: "no bound", set: func(s *setConfig) any { return &s.Archive.Count }},
	{key: "archive.size", fallback: "no bound", set: func(s *setConfig) any { return &s.Archive.Size }},
	{key: "from", flag: "from", usage: "publish what this `URL` lists, given in each run: oai+https://… (DIR is created), sitemap+https://…, urls+https://… or source+https://…", fallback: "the files of DIR", set: func(s *setConfig) any { return &s.From }},
	{key: "from.sitemap", set: func(s *setConfig) any { return &s.From.Sitemap }},
	{key: "from.urls", set: func(s *setConfig) any { return &s.From.URLs }},
	{key: "from.source", set: func(s *setConfig) any { return &s.From.Source }},
	{key: "from.oai", set: func(s *setConfig) any { return &s.From.OAI }},
	{key: "from.prefix", fallback: "oai_dc", set: func(s *setConfig) any { return &s.From.Prefix }},
	{key: "from.with_files", flag: "with-files", usage: "with --from oai+URL: also the files that records link to, by their identifiers or Signposting", fallback: "false", set: func(s *setConfig) any { return &s.From.WithFiles }},
	{key: "from.overlap", fallback: "1d", set: func(s *setConfig) any { return &s.From.Overlap }},
	{key: "from.full_every", fallback: "30d, or never if deletions are told for good", set: func(s *setConfig) any { return &s.From.FullEvery }},
	{key: "from.set", set: func(s *setConfig) any { return &s.From.Set }},
	{key: "from.sql.postgres", set: func(s *setConfig) any { return &s.From.SQL.Postgres }},
	{key: "from.sql.sqlite", set: func(s *setConfig) any { return &s.From.SQL.SQLite }},
	{key: "from.sql.query", set: func(s *setConfig) any { return &s.From.SQL.Query }},
	{key: "from.allow_origins", set: func(s *setConfig) any { return &s.From.AllowOrigins }},
	{key: "from.allow_private", set: func(s *setConfig) any { return &s.From.AllowPrivate }},
	{key: "from.original_uris", flag: "original-uris", usage: "of a mirror: list the resources under the URIs that they have at their origin, with links to the copies", fallback: "false", set: func(s *setConfig) any { return &s.From.OriginalURIs }},
	{key: "from.also", flag: "also", usage: "of a mirror: also list resources of which there is a `DOUBT`: due, unverified or held (repeatable)", set: func(s *setConfig) any { return &s.From.Also }},
	{key: "from.mirror_state", flag: "mirror-state", usage: "of a mirror: where its catalog is, if not inside it: a `DIR`", set: func(s *setConfig) any { return &s.From.MirrorState }},
	{key: "from.max_document", fallback: "200MiB", set: func(s *setConfig) any { return &s.From.MaxDocument }},
}

// addOptions adds the flags of the options to a command.
func addOptions(cmd *cobra.Command) {
	fs := cmd.Flags()
	for _, o := range options {
		if o.flag == "" {
			continue
		}
		switch o.sample().(type) {
		case *bool:
			fs.Bool(o.flag, false, o.usage)
		case *[]string:
			fs.StringArray(o.flag, nil, o.usage)
		case *retention:
			fs.String(o.flag, "", o.usage)
			fs.Lookup(o.flag).NoOptDefVal = retainAll
		default:
			fs.String(o.flag, "", o.usage)
		}
	}
}

// sample returns a value of the option's type.
func (o option) sample() any {
	if o.set != nil {
		return o.set(&setConfig{})
	}
	return o.site(&siteConfig{})
}

// variable returns the name of the option's environment variable.
func (o option) variable() string {
	return "INSTEP_" + strings.ToUpper(strings.ReplaceAll(o.flag, "-", "_"))
}

// configuration is the effective configuration, with the origin of each value.
type configuration struct {
	siteConfig
	file    *configFile       // nil if there is none
	origins map[string]string // origins of the values by key; others are defaults
}

// errorAt returns an error about the value of a key, with the place where the value was
// given.
func (c *configuration) errorAt(key string, err error) error {
	switch from := c.origins[key]; {
	case from == "" && c.file != nil:
		return &configError{c.file.name, 0, fmt.Errorf("%s: %w", key, err)}
	case from == "":
		return usagef("%s: %v", key, err)
	case strings.HasPrefix(from, fromFile):
		return &configError{c.file.name, c.file.lines[key], fmt.Errorf("%s: %w", key, err)}
	default:
		return usagef("%s: %v", name(from), err)
	}
}

// Origins of a value.
const (
	fromFlag        = "flag "
	fromEnvironment = "environment "
	fromFile        = "file, line "
	fromArgument    = "argument "
)

// name describes the origin of a value for users.
func name(from string) string {
	_, name, _ := strings.Cut(from, " ")
	return name
}

// configure reads the configuration file, if one is given, and applies the environment
// and the flags of cmd. Without a file, or if it has no sets, the configuration has one
// set with the given name.
func configure(cmd *cobra.Command, file, set string) (*configuration, error) {
	c := &configuration{origins: map[string]string{}}
	if file != "" {
		f, err := readConfigFile(file)
		if err != nil {
			return nil, err
		}
		c.file, c.siteConfig = f, f.siteConfig
		for key, line := range f.lines {
			c.origins[key] = fromFile + strconv.Itoa(line)
		}
	}
	if len(c.Sets) == 0 {
		c.Sets = []setConfig{{Name: set}}
	}
	for _, o := range options {
		if o.flag == "" {
			continue
		}
		if texts, origin := o.given(cmd); texts != nil {
			if err := c.assign(o, texts, origin); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// given returns an option's value from the command line, otherwise from the
// environment.
func (o option) given(cmd *cobra.Command) (texts []string, origin string) {
	if f := cmd.Flags().Lookup(o.flag); f != nil && f.Changed {
		if list, err := cmd.Flags().GetStringArray(o.flag); err == nil {
			return list, fromFlag + "--" + o.flag
		}
		return []string{f.Value.String()}, fromFlag + "--" + o.flag
	}
	if text, ok := os.LookupEnv(o.variable()); ok && text != "" {
		return []string{text}, fromEnvironment + o.variable()
	}
	return nil, ""
}

// assign sets an option of the site, or of each of its sets.
func (c *configuration) assign(o option, texts []string, origin string) error {
	put := func(key string, to any) error {
		if err := assign(to, texts); err != nil {
			return usagef("%s: %v", name(origin), err)
		}
		c.origins[key] = origin
		return nil
	}
	if o.site != nil {
		return put(o.key, o.site(&c.siteConfig))
	}
	for i := range c.Sets {
		if err := put(setKey(i, o.key), o.set(&c.Sets[i])); err != nil {
			return err
		}
	}
	return nil
}

// setKey returns the key of an option of the set with index i.
func setKey(i int, key string) string { return fmt.Sprintf("sets[%d].%s", i, key) }

// assign parses texts into the value to which to points.
func assign(to any, texts []string) (err error) {
	switch to := to.(type) {
	case *string:
		*to = texts[0]
	case *[]string:
		*to = texts
	case *int:
		if *to, err = strconv.Atoi(texts[0]); err != nil {
			return fmt.Errorf("expected a whole number, found %q", texts[0])
		}
	case *bool:
		if *to, err = strconv.ParseBool(texts[0]); err != nil {
			return fmt.Errorf("expected true or false, found %q", texts[0])
		}
	case interface{ set(string) error }:
		return to.set(texts[0])
	}
	return nil
}

// show formats the value to which from points as in a configuration file; "" if it is
// not set.
func show(from any) string {
	switch from := from.(type) {
	case *string:
		return *from
	case *[]string:
		return strings.Join(*from, ", ")
	case *int:
		if *from != 0 {
			return strconv.Itoa(*from)
		}
	case *bool:
		if *from {
			return "true"
		}
	case *duration:
		if *from != 0 {
			return from.String()
		}
	case *retention:
		if *from != 0 {
			return from.String()
		}
	case *size:
		if *from != 0 {
			return from.String()
		}
	}
	return ""
}
