// Package aggregate groups the resources of a set into Aggregations of OAI-ORE by rules,
// and writes the Resource Maps that describe them (ORE 1.0 Atom and JSON-LD) with the
// documents by which they are found: a Sitemap, an Atom feed and an RSS feed (ORE alpha
// §2.2, §2.3).
//
// [Of] returns the Aggregations that contain the resource at one path, so that a list can
// link to them. [New] makes a grouping, [Grouping.Add] adds a member, and [Grouping.Maps]
// returns the maps for a publication. Members are sorted on disk, and an Atom map needs the
// same memory for any number of members.
package aggregate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"instep/internal/glob"
	"instep/source"
)

// Rule groups the resources whose path matches into Aggregations. Name, Title and Creator
// may contain placeholders: {1} to {9} are the directories of the path from the root, {dir}
// is all of them with a slash at the end, {name} is the file name and {stem} the file name
// without its extension. If Name uses a directory that the path of a resource does not
// have, the resource is in no Aggregation of the rule.
type Rule struct {
	Match   string // glob pattern (internal/glob) that the path of a resource must match
	Name    string // resources with the same Name are in the same Aggregation
	Title   string // "" uses Name
	Creator string // creator of the Aggregation; "" if there is none
}

// Aggregation is an OAI-ORE Aggregation, which a rule creates.
type Aggregation struct {
	Key                  string // part of the file names and URIs of its maps
	Name, Title, Creator string
}

// mapExtension is the file name extension of Atom maps.
const mapExtension = ".atom"

// MapURI returns the URI of the Aggregation's Atom map, given the base URL and the set.
func (a *Aggregation) MapURI(base, set string) string {
	return source.MapURI(base, set, a.Key+mapExtension)
}

// URI returns the URI of the Aggregation. It is the URI of the Atom map plus a fragment,
// because the two URIs must differ (ORE 1.0 Abstract Data Model §5).
func (a *Aggregation) URI(base, set string) string { return a.MapURI(base, set) + "#aggregation" }

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// Check returns an error if the rule is invalid.
func (r *Rule) Check() error {
	if !glob.Valid(r.Match) {
		return errors.New("this is no pattern")
	}
	if r.Name == "" {
		return errors.New("an aggregation needs a name")
	}
	known := placeholder.FindAllString(r.Name, -1)
	for _, p := range known {
		if !slices.Contains([]string{"{dir}", "{name}", "{stem}"}, p) && (len(p) != 3 || p[1] < '1' || p[1] > '9') {
			return fmt.Errorf("name %q: expected {1} to {9}, {dir}, {name} or {stem}, found %s", r.Name, p)
		}
	}
	for _, text := range []string{r.Title, r.Creator} {
		for _, p := range placeholder.FindAllString(text, -1) {
			if !slices.Contains(known, p) {
				return fmt.Errorf("the text %q has the placeholder %s, which the name %q does not have, so members of one Aggregation could have different texts", text, p, r.Name)
			}
		}
	}
	return nil
}

// Check returns the first invalid rule, with the error of its Check.
func Check(rules []Rule) (wrong *Rule, err error) {
	for i := range rules {
		if err := rules[i].Check(); err != nil {
			return &rules[i], err
		}
	}
	return nil, nil
}

// Of returns the distinct Aggregations of the resource at a path, in the order of the
// rules. The rules must be valid.
func Of(rules []Rule, at string) (found []Aggregation) {
	for i := range rules {
		r := &rules[i]
		if !glob.Match(r.Match, at, false) {
			continue
		}
		name, ok := expand(r.Name, at)
		if !ok {
			continue
		}
		a := Aggregation{Key: keyOf(name), Name: name, Title: name}
		if slices.ContainsFunc(found, func(o Aggregation) bool { return o.Key == a.Key }) {
			continue
		}
		if r.Title != "" {
			a.Title, _ = expand(r.Title, at)
		}
		a.Creator, _ = expand(r.Creator, at)
		found = append(found, a)
	}
	return found
}

// expand replaces placeholders by parts of a path. It returns false if the path has no such
// part, or if the result is empty.
func expand(text, at string) (filled string, ok bool) {
	dir, name := path.Split(at)
	dirs := strings.Split(dir, "/")
	stem := name
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		stem = name[:i]
	}
	ok = true
	filled = placeholder.ReplaceAllStringFunc(text, func(p string) string {
		switch p {
		case "{dir}":
			return dir
		case "{name}":
			return name
		case "{stem}":
			return stem
		}
		if n := int(p[1] - '0'); n < len(dirs) {
			return dirs[n-1]
		}
		ok = false
		return ""
	})
	filled = strings.TrimSuffix(strings.ToValidUTF8(filled, "\ufffd"), "/")
	return filled, ok && filled != ""
}

// plainKey matches names that every file system and every URI can contain unchanged.
var plainKey = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// reservedKey matches names that are not allowed on Windows, and the names of the documents
// that list the maps.
var reservedKey = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9]|sitemap|maps)$`)

var notPlainChars = regexp.MustCompile(`[^a-z0-9_]+`)

// keyOf turns the name of an Aggregation into a part of file names. A plain name is used
// unchanged. Otherwise the result is the plain characters of the name and a part of its
// digest, so that names that differ only in case get different files.
func keyOf(name string) string {
	if plainKey.MatchString(name) && !reservedKey.MatchString(name) {
		return name
	}
	plain := strings.Trim(notPlainChars.ReplaceAllString(strings.ToLower(name), "-"), "-_")
	plain = strings.TrimRight(plain[:min(len(plain), 47)], "-_")
	sum := sha256.Sum256([]byte(name))
	return strings.TrimPrefix(plain+"-"+hex.EncodeToString(sum[:8]), "-")
}
