package main

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// option is a value of the configuration: a key of the file, and usually also a flag and an
// environment variable. If the key belongs to a set, the flag sets the value for all sets.
type option struct {
	key      string // the key in the file; for a key of a set, without the prefix sets[N]
	flag     string // the name of the flag; "" if there is no flag
	usage    string
	fallback string // a description of the default value
	site     func(*siteConfig) any
	set      func(*setConfig) any
}

var options = []option{
	{key: "base_url", flag: "base-url", usage: "`URL` at which DIR is served (required the first time)", site: func(c *siteConfig) any { return &c.BaseURL }},
	{key: "dir", site: func(c *siteConfig) any { return &c.Dir }},
	{key: "out", flag: "out", usage: "`DIR` into which the documents are written (default: the directory of the resources)", fallback: "dir", site: func(c *siteConfig) any { return &c.Out }},
	{key: "state", flag: "state", usage: "keep the state between runs in `DIR` (default: in the user's state directory)", fallback: "in the user's state directory", site: func(c *siteConfig) any { return &c.State }},
	{key: "hash", flag: "hash", usage: "compute these `DIGESTS`: sha-256, md5, sha-1, sha-224, sha-384, sha-512 (default sha-256)", fallback: "sha-256", site: func(c *siteConfig) any { return &c.Hash }},
	{key: "workers", flag: "workers", usage: "read `N` files at a time (default: one for each processor)", fallback: "one for each processor", site: func(c *siteConfig) any { return &c.Workers }},
	{key: "source.title", flag: "title", usage: "`TEXT` for people: the name of the Source", site: func(c *siteConfig) any { return &c.Source.Title }},
	{key: "source.description", flag: "description", usage: "`TEXT` for people: what the Source contains", site: func(c *siteConfig) any { return &c.Source.Description }},
	{key: "source.contact", flag: "contact", usage: "`TEXT` for people: whom to ask about the Source", site: func(c *siteConfig) any { return &c.Source.Contact }},
	{key: "source.licence", flag: "licence", usage: "`TEXT` for people: what is allowed with the resources", site: func(c *siteConfig) any { return &c.Source.Licence }},

	{key: "name", fallback: "the default set", set: func(s *setConfig) any { return &s.Name }},
	{key: "title", set: func(s *setConfig) any { return &s.Title }},
	{key: "description", set: func(s *setConfig) any { return &s.Description }},
	{key: "contact", set: func(s *setConfig) any { return &s.Contact }},
	{key: "licence", set: func(s *setConfig) any { return &s.Licence }},
	{key: "include", flag: "include", usage: "publish only files that match this `GLOB`, as in .gitignore: *.png, /x.png, a/ (repeatable)", fallback: "all files", set: func(s *setConfig) any { return &s.Include }},
	{key: "exclude", flag: "exclude", usage: "leave out files and directories that match this `GLOB` (repeatable)", set: func(s *setConfig) any { return &s.Exclude }},
	{key: "assume_unchanged", flag: "assume-unchanged", usage: "do not read files and directories that match this `GLOB`: they stay published as they are (repeatable)", set: func(s *setConfig) any { return &s.Assume }},
	{key: "all_files", flag: "all-files", usage: "also publish files that systems and editors leave behind: Thumbs.db, desktop.ini, ~$*, *~, #*#", fallback: "false", set: func(s *setConfig) any { return &s.AllFiles }},
	{key: "link_files", flag: "link-files", usage: "read the links of a file NAME from a file NAME.links.json, which is not published itself", fallback: "false", set: func(s *setConfig) any { return &s.LinkFiles }},
	{key: "max_entries", flag: "max-entries", usage: "write at most `N` entries to a document of a Resource List (default and upper bound: 50000)", fallback: "50000", set: func(s *setConfig) any { return &s.MaxEntries }},
	{key: "change_list_max", flag: "change-list-max", usage: "begin a new Change List when the open one has `N` changes (default 5000)", fallback: "5000", set: func(s *setConfig) any { return &s.ChangeListMax }},
	{key: "rotate_every", flag: "rotate-every", usage: "begin a new Change List when the open one is older than this `TIME`, such as 24h or 30d", fallback: "only when change_list_max is reached", set: func(s *setConfig) any { return &s.RotateEvery }},
	{key: "rebase_every", flag: "rebase-every", usage: "write a new Resource List when the present one is older than this `TIME`", fallback: "when many resources have changed", set: func(s *setConfig) any { return &s.RebaseEvery }},
	{key: "keep_changes", flag: "keep-changes", usage: "offer closed Change Lists for at least this `TIME` (default 30d)", fallback: "30d", set: func(s *setConfig) any { return &s.KeepChanges }},
	{key: "keep_versions", flag: "keep-versions", usage: "offer each earlier state of a resource at its own URI, for this `TIME` after the state ended (--keep-versions=1y), or for ever if no time is given (see \"instep help links\")", fallback: "none", set: func(s *setConfig) any { return &s.KeepVersions }},
	{key: "timegates", flag: "timegates", usage: "with --keep-versions: also add links to the TimeGates and TimeMaps that \"instep serve -c\" provides", fallback: "false", set: func(s *setConfig) any { return &s.TimeGates }},
	{key: "max_delete", flag: "max-delete", usage: "publish at most `N or N%` deletions of resources", fallback: "5 or 10 % of a set, whichever is more, and never more than half of it", set: func(s *setConfig) any { return &s.MaxDelete }},
	{key: "profile", flag: "profile", usage: "write changes as readers of this `VERSION` of the standard expect them: 1.1, 1.0 or both (default 1.1)", fallback: profile11, set: func(s *setConfig) any { return &s.Profile }},
	{key: "fixed_changes", flag: "fixed-changes", usage: "add a Change List whose URI never changes, for programs that poll one URI", fallback: "false", set: func(s *setConfig) any { return &s.FixedChanges }},
	{key: "patches", flag: "patches", usage: "also publish patches of changed resources, if a patch is smaller than half of its resource; the state keeps a copy of each resource for that", fallback: "false", set: func(s *setConfig) any { return &s.Patches }},
	{key: "dumps", flag: "dump", usage: "also publish the resources in packages: a Resource Dump and Change Dumps", fallback: "false", set: func(s *setConfig) any { return &s.Dumps.On }},
	{key: "dumps.every", fallback: "when many resources have changed", set: func(s *setConfig) any { return &s.Dumps.Every }},
	{key: "dumps.package_size", flag: "package-size", usage: "total `SIZE` of the resources in a package, such as 500MB (default 1GiB)", fallback: "1GiB", set: func(s *setConfig) any { return &s.Dumps.PackageSize }},
	{key: "dumps.on_demand", fallback: "false", set: func(s *setConfig) any { return &s.Dumps.OnDemand }},
	{key: "archive", flag: "archive", usage: "keep offering earlier lists and dumps, in archives", fallback: "false", set: func(s *setConfig) any { return &s.Archive.On }},
	{key: "archive.every", fallback: "each", set: func(s *setConfig) any { return &s.Archive.Every }},
	{key: "archive.age", fallback: "no bound", set: func(s *setConfig) any { return &s.Archive.Age }},
	{key: "archive.count", fallback: "no bound", set: func(s *setConfig) any { return &s.Archive.Count }},
	{key: "archive.size", fallback: "no bound", set: func(s *setConfig) any { return &s.Archive.Size }},
	{key: "from", flag: "from", usage: "publish what this `URL` lists (repeat the flag in each run): oai+https://… (DIR is created), sitemap+https://…, urls+https://… or source+https://…", fallback: "the files of DIR", set: func(s *setConfig) any { return &s.From }},
	{key: "from.sitemap", set: func(s *setConfig) any { return &s.From.Sitemap }},
	{key: "from.urls", set: func(s *setConfig) any { return &s.From.URLs }},
	{key: "from.source", set: func(s *setConfig) any { return &s.From.Source }},
	{key: "from.oai", set: func(s *setConfig) any { return &s.From.OAI }},
	{key: "from.prefix", fallback: "oai_dc", set: func(s *setConfig) any { return &s.From.Prefix }},
	{key: "from.with_files", flag: "with-files", usage: "with --from oai+URL: also publish the files to which records link, by identifiers or Signposting", fallback: "false", set: func(s *setConfig) any { return &s.From.WithFiles }},
	{key: "from.overlap", fallback: "1d", set: func(s *setConfig) any { return &s.From.Overlap }},
	{key: "from.full_every", fallback: "30d, or never if the repository keeps records of deletions", set: func(s *setConfig) any { return &s.From.FullEvery }},
	{key: "from.set", set: func(s *setConfig) any { return &s.From.Set }},
	{key: "from.sql.postgres", set: func(s *setConfig) any { return &s.From.SQL.Postgres }},
	{key: "from.sql.sqlite", set: func(s *setConfig) any { return &s.From.SQL.SQLite }},
	{key: "from.sql.query", set: func(s *setConfig) any { return &s.From.SQL.Query }},
	{key: "from.allow_origins", set: func(s *setConfig) any { return &s.From.AllowOrigins }},
	{key: "from.allow_private", set: func(s *setConfig) any { return &s.From.AllowPrivate }},
	{key: "from.original_uris", flag: "original-uris", usage: "if DIR is a mirror: list the resources under their URIs at the origin, with links to the copies", fallback: "false", set: func(s *setConfig) any { return &s.From.OriginalURIs }},
	{key: "from.also", flag: "also", usage: "if DIR is a mirror: also list resources whose copies have this `DOUBT`: due (the Source has newer bytes), unverified (nothing proves the bytes) or held (kept in an earlier state) (repeatable)", set: func(s *setConfig) any { return &s.From.Also }},
	{key: "from.mirror_state", flag: "mirror-state", usage: "if the mirror to publish has its catalog elsewhere: `DIR` of that catalog", set: func(s *setConfig) any { return &s.From.MirrorState }},
	{key: "from.max_document", fallback: "200MiB", set: func(s *setConfig) any { return &s.From.MaxDocument }},
}

func addOptions(cmd *cobra.Command) {
	fs := cmd.Flags()
	for _, o := range options {
		if o.flag == "" {
			continue
		}
		switch o.zeroValue().(type) {
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

func (o option) zeroValue() any {
	if o.set != nil {
		return o.set(&setConfig{})
	}
	return o.site(&siteConfig{})
}

func (o option) envName() string {
	return "INSTEP_" + strings.ToUpper(strings.ReplaceAll(o.flag, "-", "_"))
}

// configuration has the values of the configuration file, overridden by those of the environment
// and the command line.
type configuration struct {
	siteConfig
	file    *configFile       // the configuration file; nil if no file is given
	origins map[string]string // the origin of each value, by key; a value without an origin is the default
}

func (c *configuration) errorAt(key string, err error) error {
	switch from := c.origins[key]; {
	case from == "" && c.file != nil:
		return &configError{c.file.name, 0, fmt.Errorf("%s: %w", key, err)}
	case from == "":
		return usagef("%s: %v", key, err)
	case strings.HasPrefix(from, fromFile):
		return &configError{c.file.name, c.file.lines[key], fmt.Errorf("%s: %w", key, err)}
	default:
		return usagef("%s: %v", originName(from), err)
	}
}

// The origin of a value is one of these prefixes, followed by the line in the file or by the name
// of the flag, environment variable or argument.
const (
	fromFlag        = "flag "
	fromEnvironment = "environment "
	fromFile        = "file, line "
	fromArgument    = "argument "
)

func originName(from string) string {
	_, name, _ := strings.Cut(from, " ")
	return name
}

// configure merges the configuration file, if there is one, the environment and the flags of cmd.
// If the file names no sets, the configuration has one set, with the name setName.
func configure(cmd *cobra.Command, file, setName string) (*configuration, error) {
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
		c.Sets = []setConfig{{Name: setName}}
	}
	for _, o := range options {
		if o.flag == "" {
			continue
		}
		if texts, origin := o.givenTexts(cmd); texts != nil {
			if err := c.assign(o, texts, origin); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func (o option) givenTexts(cmd *cobra.Command) (texts []string, origin string) {
	if f := cmd.Flags().Lookup(o.flag); f != nil && f.Changed {
		if list, err := cmd.Flags().GetStringArray(o.flag); err == nil {
			return list, fromFlag + "--" + o.flag
		}
		return []string{f.Value.String()}, fromFlag + "--" + o.flag
	}
	if text, ok := os.LookupEnv(o.envName()); ok && text != "" {
		return []string{text}, fromEnvironment + o.envName()
	}
	return nil, ""
}

func (c *configuration) assign(o option, texts []string, origin string) error {
	put := func(key string, value any) error {
		if err := setValue(value, texts); err != nil {
			return usagef("%s: %v", originName(origin), err)
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

func setKey(i int, key string) string { return fmt.Sprintf("sets[%d].%s", i, key) }

func setValue(pointer any, texts []string) (err error) {
	switch p := pointer.(type) {
	case *string:
		*p = texts[0]
	case *[]string:
		*p = texts
	case *int:
		if *p, err = strconv.Atoi(texts[0]); err != nil {
			return fmt.Errorf("expected a whole number, found %q", texts[0])
		}
	case *bool:
		if *p, err = strconv.ParseBool(texts[0]); err != nil {
			return fmt.Errorf("expected true or false, found %q", texts[0])
		}
	case interface{ set(string) error }:
		return p.set(texts[0])
	}
	return nil
}

// formatValue formats a value as in a configuration file, and a zero value as "".
func formatValue(pointer any) string {
	if reflect.ValueOf(pointer).Elem().IsZero() {
		return ""
	}
	switch p := pointer.(type) {
	case *string:
		return *p
	case *[]string:
		return strings.Join(*p, ", ")
	case *int:
		return strconv.Itoa(*p)
	case *bool:
		return "true"
	case fmt.Stringer:
		return p.String()
	}
	return ""
}
