package scan

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"instep/internal/glob"
	"instep/resourcesync"
)

// Choice says which files of a directory are resources.
type Choice struct {
	// Globs as internal/glob has them, on the slash-separated path below the directory.
	// A file is published if one of Include matches (or there is none) and none of
	// Exclude; a directory that Exclude matches is not entered.
	Include, Exclude []string
	// AssumeUnchanged are globs of files and directories that are not examined: they keep
	// their recorded state.
	AssumeUnchanged []string
	// AllFiles publishes litter, too.
	AllFiles bool
	// LinkFiles says that a file NAME.links.json has links of the file NAME, and is no
	// resource itself.
	LinkFiles bool
}

// litter are the names of files and directories that operating systems and editors leave
// behind, in lower case. Those that begin with a dot are left out anyway.
var litter = []string{
	"thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "lost+found", "__macosx",
}

// isLitter reports whether operating systems or editors leave files with this name behind.
// These include lock files of Office (~$x) and back-ups of editors (x~, #x#).
func isLitter(name string) bool {
	return strings.HasPrefix(name, "~$") || strings.HasSuffix(name, "~") && name != "~" ||
		len(name) > 2 && name[0] == '#' && name[len(name)-1] == '#' || slices.Contains(litter, strings.ToLower(name))
}

// refuses says why the choice leaves out the file or directory at a path, by its name and
// the patterns that exclude; "" if it does not.
func (c *Choice) refuses(name string, dir bool) Reason {
	switch {
	case strings.HasPrefix(path.Base(name), "."):
		return Dotfile
	case c.LinkFiles && !dir && strings.HasSuffix(name, linkFileSuffix):
		return LinkFile
	case !c.AllFiles && isLitter(path.Base(name)):
		return Litter
	case glob.MatchAny(c.AssumeUnchanged, name, dir):
		return Assumed
	}
	return ""
}

// Covers reports whether the names and patterns would let a regular file at path be
// published.
func (c *Choice) Covers(name string) bool {
	for end, r := range name + "/" {
		if r != '/' {
			continue
		}
		if reason := c.refuses(name[:end], end < len(name)); reason != "" && reason != Assumed {
			return false
		}
	}
	return !glob.MatchAny(c.Exclude, name, false) && (len(c.Include) == 0 || glob.MatchAny(c.Include, name, false))
}

// globs are the patterns of a Dir, each with a mark that it has matched in this scan.
type globs struct{ include, exclude, rules *glob.Set }

// newGlobs makes the globs of a scan.
func (d *Dir) newGlobs() *globs {
	rules := make([]string, len(d.Rules))
	for i := range d.Rules {
		rules[i] = d.Rules[i].Match
	}
	return &globs{include: glob.NewSet(d.Include), exclude: glob.NewSet(d.Exclude), rules: glob.NewSet(rules)}
}

// unmatched are the patterns that have matched nothing, as flags and keys name them.
func (g *globs) unmatched() (list []Unmatched) {
	for _, one := range []struct {
		option string
		set    *glob.Set
	}{{"include", g.include}, {"exclude", g.exclude}, {"rules", g.rules}} {
		for _, p := range one.set.Unmatched() {
			list = append(list, Unmatched{one.option, p})
		}
	}
	return list
}

// Unmatched is a pattern that matched nothing in a scan of everything.
type Unmatched struct{ Option, Pattern string }

// maxTwins bounds the twins that are named, and maxTwinNames the names of a directory
// among which they are looked for.
const (
	maxTwins     = 20
	maxTwinNames = 100_000
)

// twinFinder finds names in one directory that differ only in their Unicode form: people
// cannot distinguish them, and some systems treat them as one file.
type twinFinder struct{ names map[string]string }

// see takes a name of the directory and returns an earlier name that looks the same; "" if
// there is none.
func (t *twinFinder) see(name string) string {
	if !slices.ContainsFunc([]byte(name), func(c byte) bool { return c >= 0x80 }) || len(t.names) >= maxTwinNames {
		return ""
	}
	form := norm.NFC.String(name)
	if twin, ok := t.names[form]; ok && twin != name {
		return twin
	}
	if t.names == nil {
		t.names = map[string]string{}
	}
	t.names[form] = name
	return ""
}

// keepAssumed takes the members that are assumed to be unchanged for seen.
func (b *planner) keepAssumed() error {
	if len(b.d.AssumeUnchanged) == 0 {
		return nil
	}
	for m, err := range b.d.Facts.MembersByKey(b.ctx, b.d.Set) {
		if err != nil {
			return err
		}
		if !glob.MatchAny(b.d.AssumeUnchanged, m.Path, false) {
			continue
		}
		b.other = true
		b.p.Assumed++
		if err := b.seen.Add(resourcesync.KeyOf(m.URI)); err != nil {
			return err
		}
	}
	return nil
}
