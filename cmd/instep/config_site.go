package main

import (
	"strings"
	"time"

	"instep/internal/publish"
	"instep/resourcesync"
	"instep/source"
)

// site returns the configuration as a publish.Site. Its State is "" if no state directory is given.
func (c *configuration) site() publish.Site {
	site := publish.Site{
		Dir: c.Dir, Out: c.Out, State: c.State, BaseURL: c.BaseURL, About: c.Source.toAbout(), Workers: c.Workers,
	}
	for _, text := range c.Hash {
		for _, h := range splitList(text) {
			site.Algorithms = append(site.Algorithms, resourcesync.Algorithm(h))
		}
	}
	for i := range c.Sets {
		set := c.Sets[i].publishSet(c.BaseURL)
		set.Input = inputOf(&c.Sets[i].From, &c.Sets[i], c.BaseURL, c.Dir, c.Out)
		site.Sets = append(site.Sets, set)
	}
	if c.file == nil { // without a configuration file, texts that no flag sets stay as they were published last
		for _, o := range options {
			if field, ok := strings.CutPrefix(o.key, "source."); ok && c.origins[o.key] == "" {
				site.Recall = append(site.Recall, field)
			}
		}
	}
	return site
}

// Values of the key "profile": the version of the standard that readers of the Source expect.
const (
	profile11   = "1.1"
	profile10   = "1.0"
	profileBoth = "both"
)

// onDemandPath is the path below the base URL to which requests for packages are sent.
const onDemandPath = "resourcesync/on-demand"

// publishSet requires a base URL that ends in "/".
func (s *setConfig) publishSet(base string) publish.Set {
	set := publish.Set{
		Name: s.Name, Choice: s.choice(), Rules: s.rules(), Aggregations: s.aggregations(),
		Policy: source.Policy{
			About:     source.About{Title: s.Title, Description: s.Description, Contact: s.Contact, Licence: s.Licence},
			Profile10: s.Profile == profile10, ProfileBoth: s.Profile == profileBoth, FixedChanges: s.FixedChanges,
			PackageBytes: int64(s.Dumps.PackageSize), KeepChanges: time.Duration(s.KeepChanges),
		},
		KeepVersions: time.Duration(s.KeepVersions), TimeGates: s.TimeGates,
		Patches: s.Patches,
		Dumps:   s.Dumps.On, DumpEvery: time.Duration(s.Dumps.Every), RebaseEvery: time.Duration(s.RebaseEvery),
		RotateEvery: time.Duration(s.RotateEvery), ChangeListMax: s.ChangeListMax, MaxEntries: s.MaxEntries, MaxDelete: s.MaxDelete,
	}
	if s.Dumps.OnDemand {
		set.Policy.OnDemand = base + onDemandPath
	}
	if a := s.Archive; a.On {
		set.Policy.Archive = &source.Archive{Every: time.Duration(a.Every), Age: time.Duration(a.Age), Count: a.Count, Bytes: int64(a.Size)}
	}
	return set
}
