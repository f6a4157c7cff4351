package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"instep/fetch"
	"instep/internal/scan"
)

// fromConfig says where the resources of a set are listed, if they are not the files of a
// directory. At most one of Sitemap, URLs, Source, OAI and SQL is given.
type fromConfig struct {
	Sitemap string    `yaml:"sitemap"` // URL or file
	URLs    string    `yaml:"urls"`    // URL or file
	Source  string    `yaml:"source"`  // a URI by which the Source can be found
	OAI     string    `yaml:"oai"`     // the base URL of an OAI-PMH repository
	Set     string    `yaml:"set"`     // the name of a set of the Source or mirror, or the setSpec of a set of the OAI-PMH repository
	Prefix  string    `yaml:"prefix"`  // the metadataPrefix of the records of the OAI-PMH repository; "" means oai_dc
	SQL     sqlConfig `yaml:"sql"`

	Overlap      duration `yaml:"overlap"`    // the time by which the periods of two successive harvests overlap; 0 means a day
	FullEvery    duration `yaml:"full_every"` // the time between two harvests of all records
	WithFiles    bool     `yaml:"with_files"` // whether the files to which the records link are published, too
	AllowOrigins []string `yaml:"allow_origins"`
	AllowPrivate []string `yaml:"allow_private"`
	MaxDocument  size     `yaml:"max_document"` // the largest size of a list of resources in bytes

	// The following fields are for a directory that is a mirror.
	OriginalURIs bool     `yaml:"original_uris"` // whether the resources are listed with the URIs that they have at the Source of the mirror
	Also         []string `yaml:"also"`          // some of "due", "unverified" and "held"; resources whose copies have one of these states are listed, too
	MirrorState  string   `yaml:"mirror_state"`  // the state directory of the mirror, if it is not inside the mirror
	Mirror       string   `yaml:"-"`             // the mirror's directory; "" if the directory is not a mirror
}

type sqlConfig struct {
	Postgres string `yaml:"postgres"` // connection string of a PostgreSQL database, without a password
	SQLite   string `yaml:"sqlite"`   // file
	Query    string `yaml:"query"`
}

// set parses the value of --from, such as sitemap+https://museum.example.org/sitemap.xml.
func (f *fromConfig) set(text string) error {
	kind, place, ok := strings.Cut(text, "+")
	field := map[string]*string{"sitemap": &f.Sitemap, "urls": &f.URLs, "source": &f.Source, "oai": &f.OAI}[kind]
	if !ok || field == nil || place == "" {
		return fmt.Errorf("expected oai+URL, sitemap+URL, urls+URL or source+URL, found %q", text)
	}
	*f = fromConfig{OriginalURIs: f.OriginalURIs, Also: f.Also, MirrorState: f.MirrorState, AllowOrigins: f.AllowOrigins, AllowPrivate: f.AllowPrivate, MaxDocument: f.MaxDocument, WithFiles: f.WithFiles}
	if *field = place; kind == "oai" {
		return f.setRequest(place)
	}
	return nil
}

func (f *fromConfig) givenKeys() []string {
	var all []string
	for _, k := range []struct{ key, value string }{
		{"sitemap", f.Sitemap}, {"urls", f.URLs}, {"source", f.Source}, {"oai", f.OAI}, {"sql", f.SQL.Postgres + f.SQL.SQLite + f.SQL.Query}, {"mirror", f.Mirror},
	} {
		if k.value != "" {
			all = append(all, k.key)
		}
	}
	return all
}

func (f *fromConfig) resolvePaths(dir string) {
	for _, path := range []*string{&f.Sitemap, &f.URLs, &f.SQL.SQLite, &f.MirrorState} {
		if *path != "" && !filepath.IsAbs(*path) && !strings.Contains(*path, "://") {
			*path = filepath.Join(dir, *path)
		}
	}
}

// check returns the first invalid key below "from:" in the configuration, and an error about its
// value.
func (f *fromConfig) check() (key string, err error) {
	given := f.givenKeys()
	switch {
	case len(given) > 1:
		return given[1], fmt.Errorf("expected one list of resources, found %s", strings.Join(given, " and "))
	case len(given) == 0 && (f.Set != "" || len(f.AllowOrigins) > 0 || len(f.AllowPrivate) > 0 || f.MaxDocument > 0):
		return "", errors.New("expected sitemap, urls, source, oai or sql")
	case f.Set != "" && f.Source == "" && f.OAI == "" && f.Mirror == "":
		return "set", errors.New("the key \"set\" requires the key \"source\" or \"oai\", or a mirror as the directory to publish")
	case f.Prefix != "" && f.OAI == "":
		return "prefix", errors.New("the key \"prefix\" requires the key \"oai\", since only OAI-PMH repositories have metadata prefixes")
	case f.WithFiles && f.OAI == "":
		return "with_files", errors.New("the key \"with_files\" requires the key \"oai\", since only OAI-PMH repositories have records")
	}
	if key, err := f.checkMirror(); err != nil {
		return key, err
	}
	for key, place := range map[string]string{"sitemap": f.Sitemap, "urls": f.URLs, "source": f.Source, "oai": f.OAI} {
		if strings.Contains(place, "://") || (key == "source" || key == "oai") && place != "" {
			if _, err := fetch.Parse(place); err != nil {
				return key, err
			}
		}
	}
	if len(given) == 1 && given[0] == "sql" {
		if err := f.query("").Check(); err != nil {
			return "sql", err
		}
	}
	for _, o := range f.AllowOrigins {
		if _, err := fetch.Parse(o); err != nil {
			return "allow_origins", err
		}
	}
	_, err = fetch.New(f.clientOptions(""))
	return "allow_private", err
}

func (f *fromConfig) query(base string) scan.Query {
	return scan.Query{Postgres: f.SQL.Postgres, SQLite: f.SQL.SQLite, SQL: f.SQL.Query, BaseURL: base}
}

func (f *fromConfig) allowedOrigins() []string {
	var all []string
	for _, o := range f.AllowOrigins {
		if u, err := fetch.Parse(o); err == nil {
			all = append(all, fetch.Origin(u))
		}
	}
	return all
}

// clientOptions allows a private address for the host of the base URL, because this host is the
// user's own.
func (f *fromConfig) clientOptions(base string) fetch.Options {
	private := f.AllowPrivate
	if u, err := fetch.Parse(base); err == nil {
		private = append(slices.Clone(private), net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])))
	}
	return fetch.Options{UserAgent: "instep/" + version + " (ResourceSync Source)", AllowPrivate: private, MaxDocument: int64(f.MaxDocument),
		PrivateHint: "to allow the address, add it to from.allow_private in the configuration:", AllowOrigins: f.allowedOrigins()}
}

// inputOf returns a function that opens the input of a set, or nil if the set consists of the files
// of the directory. The files and connections of an input stay open until the program ends.
func inputOf(f *fromConfig, set *setConfig, base, dir, out string) func(scan.Deps) (scan.Input, error) {
	if len(f.givenKeys()) == 0 {
		return nil
	}
	client := sync.OnceValues(func() (*fetch.Client, error) { return fetch.New(f.clientOptions(base)) })
	harvest := f.recordsInput(set, cmp.Or(dir, out))
	tree := sync.OnceValues(func() (scan.Tree, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", scan.ErrRoot, err)
		}
		return scan.RootTree(root), nil
	})
	if f.Mirror != "" {
		return f.mirrorInput(set, tree)
	}
	return func(deps scan.Deps) (scan.Input, error) {
		c, err := client()
		if err != nil {
			return nil, err
		}
		if f.OAI != "" {
			return harvest(c, deps)
		}
		l := &scan.List{Deps: deps, Client: c, Include: set.Include, Exclude: set.Exclude, Rules: set.rules()}
		l.Listing = f.listing(c, deps)
		if dir != "" && f.SQL != (sqlConfig{}) {
			l.Tree, err = tree()
		}
		return l, err
	}
}

func openListing(name string) (io.ReadCloser, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("expected a regular file")}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

func (f *fromConfig) listing(c *fetch.Client, deps scan.Deps) scan.Listing {
	switch f.givenKeys()[0] {
	case "sitemap":
		return scan.Sitemap{Client: c, At: f.Sitemap, Open: openListing, AllowOrigins: f.allowedOrigins(), Spool: deps.Spool}.List
	case "urls":
		return scan.URLs{Client: c, At: f.URLs, Open: openListing, Spool: deps.Spool}.List
	case "source":
		return scan.Source{Client: c, URI: f.Source, Set: f.Set, AllowOrigins: f.allowedOrigins(), Spool: deps.Spool}.List
	}
	return f.query(deps.BaseURL).List
}
