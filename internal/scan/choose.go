package scan

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"instep/internal/glob"
	"instep/resourcesync"
)

// Choice selects the files of a directory that are resources.
type Choice struct {
	// Include and Exclude are globs (internal/glob) for the slash-separated path below
	// the directory. A file is published if an Include matches, or there is none, and
	// no Exclude matches. A directory that an Exclude matches is not entered.
	Include, Exclude []string
	// AssumeUnchanged are globs of files and directories that are not examined: they keep
	// their recorded state.
	AssumeUnchanged []string
	// AllFiles also publishes litter.
	AllFiles bool
	// LinkFiles says that a file NAME.links.json has links of the file NAME, and is no
	// resource itself.
	LinkFiles bool
}

// litter contains names, in lower case, of files and directories that operating systems
// and editors leave behind. Names that begin with a dot are left out anyway.
var litter = []string{
	"thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "lost+found", "__macosx",
}

// isLitter reports whether files of this name are usually left behind by operating
// systems or editors. They include lock files of Office (~$x) and back-ups of editors
// (x~, #x#).
func isLitter(name string) bool {
	return strings.HasPrefix(name, "~$") || strings.HasSuffix(name, "~") && name != "~" ||
		len(name) > 2 && name[0] == '#' && name[len(name)-1] == '#' || slices.Contains(litter, strings.ToLower(name))
}

// refuses returns the reason why the file or directory at a path is left out, by its
// name and the exclude patterns; "" if it is not left out.
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

// Covers reports whether names and patterns allow a regular file at path to be
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

// globs are the compiled patterns of a Dir. Each records whether it has matched in this
// scan.
type globs struct{ include, exclude, rules *glob.Set }

// newGlobs compiles the globs of a scan.
func (d *Dir) newGlobs() *globs {
	rules := make([]string, len(d.Rules))
	for i := range d.Rules {
		rules[i] = d.Rules[i].Match
	}
	return &globs{include: glob.NewSet(d.Include), exclude: glob.NewSet(d.Exclude), rules: glob.NewSet(rules)}
}

// unmatched returns the patterns that matched nothing, with the names of their flags or
// configuration keys.
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

// Unmatched is a pattern that matched nothing in a scan of the whole directory.
type Unmatched struct{ Option, Pattern string }

// maxTwins bounds the reported twins; maxTwinNames bounds the names of a directory that
// are compared.
const (
	maxTwins     = 20
	maxTwinNames = 100_000
)

// twinFinder finds names in one directory that differ only in their Unicode form: people
// cannot distinguish them, and some systems treat them as one file.
type twinFinder struct{ names map[string]string }

// see records a name of the directory and returns an earlier name that looks the same;
// "" if there is none.
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

// keepAssumed marks the members that AssumeUnchanged matches as seen.
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
