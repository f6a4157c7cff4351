package scan

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"instep/internal/glob"
	"instep/resourcesync"
)

// Choice selects which files of a directory are published as resources.
type Choice struct {
	// Include and Exclude are globs (package glob) for the slash-separated path below the
	// directory. A file is published if no Exclude matches it, and either an Include
	// matches it or Include is empty. A directory that an Exclude matches is not entered.
	Include, Exclude []string
	// AssumeUnchanged are globs of files and directories that the scan does not examine. The
	// recorded state of these files stays.
	AssumeUnchanged []string
	// AllFiles means that even files are published that operating systems and editors leave
	// behind.
	AllFiles bool
	// LinkFiles means that a file NAME.links.json has the links of the file NAME and is not
	// a resource itself.
	LinkFiles bool
}

// litter lists, in lower case, the names of files and directories that operating systems
// and editors leave behind. Names that begin with a dot need no entry, because they are
// never published.
var litter = []string{
	"thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "lost+found", "__macosx",
}

// isLitter reports whether operating systems or editors leave behind files with this name,
// such as lock files of Office (~$x) and back-ups of editors (x~, #x#).
func isLitter(name string) bool {
	return strings.HasPrefix(name, "~$") || strings.HasSuffix(name, "~") && name != "~" ||
		len(name) > 2 && name[0] == '#' && name[len(name)-1] == '#' || slices.Contains(litter, strings.ToLower(name))
}

// refusedName returns the reason why no file or directory with this name may be
// published, or "" if there is none. It ignores Include and Exclude.
func (c *Choice) refusedName(name string, dir bool) Reason {
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

// Covers reports whether a regular file at a path would be published, as far as that
// depends on its path.
func (c *Choice) Covers(name string) bool {
	for end, r := range name + "/" {
		if r != '/' {
			continue
		}
		if reason := c.refusedName(name[:end], end < len(name)); reason != "" && reason != Assumed {
			return false
		}
	}
	return !glob.MatchAny(c.Exclude, name, false) && (len(c.Include) == 0 || glob.MatchAny(c.Include, name, false))
}

// globs are the compiled patterns of a Dir. Each pattern records whether it has matched
// during the scan.
type globs struct{ include, exclude, rules *glob.Set }

func (d *Dir) newGlobs() *globs {
	rules := make([]string, len(d.Rules))
	for i := range d.Rules {
		rules[i] = d.Rules[i].Match
	}
	return &globs{include: glob.NewSet(d.Include), exclude: glob.NewSet(d.Exclude), rules: glob.NewSet(rules)}
}

// unmatched returns the patterns that matched nothing, each with the name of the flag or
// configuration key that gave it.
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

// maxTwins is the largest number of pairs in Plan.Twins. maxTwinNames is the largest number
// of names in one directory that are compared to find such pairs.
const (
	maxTwins     = 20
	maxTwinNames = 100_000
)

// twinFinder finds names in one directory that differ only in their Unicode form.
// People cannot distinguish such names, and some operating systems treat them as one
// file.
type twinFinder struct{ names map[string]string }

// addName adds a name, and returns the earlier name that looks the same, or "" if there
// is none.
func (t *twinFinder) addName(name string) string {
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

// keepAssumed treats the members that AssumeUnchanged matches as if the scan had found
// their files unchanged.
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
		b.changed = true
		b.p.Assumed++
		if err := b.seen.Add(resourcesync.KeyOf(m.URI)); err != nil {
			return err
		}
	}
	return nil
}
