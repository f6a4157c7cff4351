package publish

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"instep/guard"
	"instep/internal/aggregate"
	"instep/internal/glob"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

const defaultChangeListMax = 5000

// checkedSite is a valid site with its defaults filled in.
type checkedSite struct {
	Site
	sets []checkedSet
}

type checkedSet struct {
	Set
	limit guard.Limit
}

// Check validates a site without opening anything. The error is an *OptionError.
func (site Site) Check() error {
	_, err := site.validate()
	return err
}

func (site Site) validate() (checkedSite, error) {
	s := checkedSite{Site: site}
	var err error
	if s.BaseURL, err = source.ParseBaseURL(site.BaseURL); err != nil {
		return s, &OptionError{"base-url", site.BaseURL, err}
	}
	if len(s.Algorithms) == 0 {
		s.Algorithms = []resourcesync.Algorithm{resourcesync.SHA256}
	}
	for _, a := range s.Algorithms {
		if !a.Known() {
			return s, &OptionError{"hash", string(a), resourcesync.ErrUnknownAlgorithm}
		}
	}
	if site.Workers < 0 {
		return s, &OptionError{"workers", strconv.Itoa(site.Workers), errors.New("expected 1 or more")}
	}
	if site.Dir == "" && site.Out == "" {
		return s, &OptionError{"out", "", errors.New("expected a directory for the documents")}
	}
	if len(site.Sets) == 0 {
		return s, &OptionError{"set", "", errors.New("expected at least one set")}
	}
	for i, set := range site.Sets {
		if slices.ContainsFunc(site.Sets[:i], func(o Set) bool { return o.Name == set.Name }) {
			return s, &OptionError{"set", set.Name, errors.New("expected each name once")}
		}
		one, err := s.validateSet(set)
		if err != nil {
			return s, err
		}
		for _, other := range s.sets {
			if err := checkSameLabels(&other.Set, &set); err != nil {
				return s, err
			}
		}
		s.sets = append(s.sets, one)
	}
	return s, nil
}

// checkSameLabels returns an error if two sets that may share files have rules with the
// same glob but different types or encodings. A file has one type and one encoding, which
// are the same in all sets.
func checkSameLabels(a, b *Set) error {
	if a.Input != nil || b.Input != nil || !(a.includesAll() || b.includesAll() || slices.Equal(a.Include, b.Include) && slices.Equal(a.Exclude, b.Exclude)) {
		return nil
	}
	for _, r := range a.Rules {
		says, other := ruleOf(a.Rules, r.Match), ruleOf(b.Rules, r.Match)
		for what, said := range map[string][2]string{"type": {says.Type, other.Type}, "encoding": {says.Encoding, other.Encoding}} {
			if said[0] != "" && said[1] != "" && said[0] != said[1] {
				return &OptionError{"rules", r.Match, fmt.Errorf("set %q gives %s %q, and set %q gives %q to the same files: use one value in both", a.Name, what, said[0], b.Name, said[1])}
			}
		}
	}
	return nil
}

func (s *Set) includesAll() bool { return len(s.Include) == 0 && len(s.Exclude) == 0 }

// ruleOf combines the type and the encoding of the rules whose glob equals pattern.
func ruleOf(rules []scan.Rule, pattern string) (combined scan.Rule) {
	for _, r := range rules {
		if r.Match == pattern {
			combined.Type, combined.Encoding = cmp.Or(combined.Type, r.Type), cmp.Or(combined.Encoding, r.Encoding)
		}
	}
	return combined
}

func (s *checkedSite) validateSet(set Set) (checkedSet, error) {
	one := checkedSet{Set: set}
	var err error
	if err := source.CheckSet(set.Name); err != nil {
		return one, &OptionError{"set", set.Name, err}
	}
	if one.limit, err = guard.ParseLimit(set.MaxDelete); err != nil {
		return one, &OptionError{"max-delete", set.MaxDelete, err}
	}
	for option, n := range map[string]int{"max-entries": set.MaxEntries, "change-list-max": set.ChangeListMax} {
		if n < 0 || n > resourcesync.MaxEntries {
			return one, &OptionError{option, strconv.Itoa(n), fmt.Errorf("expected 1 to %d", resourcesync.MaxEntries)}
		}
	}
	for option, d := range map[string]time.Duration{"dump-every": set.DumpEvery, "rebase-every": set.RebaseEvery, "rotate-every": set.RotateEvery} {
		if d < 0 {
			return one, &OptionError{option, d.String(), errors.New("expected no negative time")}
		}
	}
	if set.ChangeListMax == 0 {
		one.ChangeListMax = defaultChangeListMax
	}
	if set.Policy.KeepChanges == 0 {
		one.Policy.KeepChanges = source.DefaultKeepChanges
	}
	if err := checkVersions(&one); err != nil {
		return one, err
	}
	if err := s.checkBytes(&set); err != nil {
		return one, err
	}
	if rule, err := aggregate.Check(set.Aggregations); err != nil {
		return one, &OptionError{"aggregations", rule.Match, err}
	}
	return one, checkGlobs(set)
}

// checkVersions returns an error if the options for the versions of a set contradict each
// other.
func checkVersions(set *checkedSet) error {
	switch {
	case set.KeepVersions == 0 && set.TimeGates:
		return &OptionError{"timegates", "true", errors.New("expected keep-versions as well, because a TimeGate redirects to versions")}
	case set.KeepVersions == 0:
	case set.KeepVersions < set.Policy.KeepChanges:
		return &OptionError{"keep-versions", set.KeepVersions.String(), fmt.Errorf("expected at least the time for which changes are offered (keep-changes, %s), because changes link to versions", set.Policy.KeepChanges)}
	}
	return nil
}

// checkBytes returns an error if an option of the set needs the bytes of resources, but the
// bytes cannot be read or are not identified by their SHA-256.
func (s *checkedSite) checkBytes(set *Set) error {
	for _, need := range []struct {
		given          bool
		option, action string
		sum            string // the message that says why the option needs SHA-256 digests
	}{
		{set.Dumps, "dump", "pack", "dumps need the algorithm sha-256, which identifies the bytes of a change"},
		{set.KeepVersions != 0, "keep-versions", "keep", "keep-versions needs the algorithm sha-256, which identifies the kept bytes"},
		{set.Patches, "patches", "compare", "patches need the algorithm sha-256, which proves the result of a patch"},
	} {
		switch {
		case !need.given:
		case set.Input == nil && s.Dir == "":
			return &OptionError{need.option, set.Name, fmt.Errorf("the site has no directory, so there are no bytes of resources to %s", need.action)}
		case !slices.Contains(s.Algorithms, resourcesync.SHA256):
			return &OptionError{"hash", fmt.Sprint(s.Algorithms), errors.New(need.sum)}
		}
	}
	return nil
}

func checkGlobs(set Set) error {
	globs := map[string][]string{"include": set.Include, "exclude": set.Exclude, "assume-unchanged": set.AssumeUnchanged}
	for _, r := range set.Rules {
		globs["rules"] = append(globs["rules"], r.Match)
	}
	for option, patterns := range globs {
		for _, g := range patterns {
			if !glob.Valid(g) {
				return &OptionError{option, g, errors.New("this is no pattern")}
			}
		}
	}
	return nil
}
