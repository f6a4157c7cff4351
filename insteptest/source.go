// Package insteptest serves a Source for tests of programs that read ResourceSync Sources:
// it changes, has every capability, and misbehaves on request.
//
//	func TestHarvester(t *testing.T) {
//		src := insteptest.NewSource(t, insteptest.Options{Resources: 50, Dumps: true})
//		harvest(src.URL)
//		src.Advance(time.Minute)            // time passes there, and things change
//		src.Misbehave("wrong-bytes")        // a bit is flipped on its way now and then
//		harvest(src.URL)
//		src.Behave()
//		harvest(src.URL)
//		compare(src.Resources())            // what it has now
//	}
//
// [Misbehaviours] lists its faults: the habits of existing Sources by number and faults by
// name, as docs/simulate.md describes them. [Source.Override] serves a single document as a
// cache would, or withdraws it. The same Seed gives the same resources and the same
// changes.
package insteptest

import (
	"cmp"
	"encoding/hex"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"instep/blob"
	"instep/internal/sim"
	"instep/source"
)

// Options configures a Source. The zero value is good.
type Options struct {
	Seed      uint64        // seed of all random choices
	Resources int           // resources at the beginning; 20
	MaxLength int64         // largest resource, in bytes; 2,000
	Rate      float64       // changes a second of the Source's time; 1
	Sets      int           // sets of resources; 1
	Dumps     bool          // offers Resource Dumps and Change Dumps (1.1 §11, §13)
	Archives  bool          // offers archives of its lists and dumps
	MaxList   int           // entries of a Resource List or Change List, at most 50,000; 5,000
	Keep      time.Duration // how long, in the Source's time, superseded documents stay; 1 h
}

// Source is a Source that is served on loopback until the test ends.
type Source struct {
	// URL is where it is served, with a slash at the end: discovery starts from it.
	URL string

	t     testing.TB
	model *sim.Model
	sim   *sim.Source
}

// Resource is the present state of a resource of a Source.
type Resource struct {
	Length int64
	SHA256 string // in hex
	Type   string
}

// start is when the Source's clock begins: all its times are the same in every run.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewSource makes a Source, publishes it and serves it. An error ends the test.
func NewSource(t testing.TB, o Options) *Source {
	t.Helper()
	model, err := sim.NewModel(t.Context(), sim.Config{
		Seed: o.Seed, Resources: cmp.Or(o.Resources, 20), Rate: cmp.Or(o.Rate, 1), Sets: cmp.Or(o.Sets, 1), Start: start,
		Size: sim.Size{Kind: sim.Uniform, Low: 1, High: cmp.Or(o.MaxLength, 2_000)},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(nil)
	s := &Source{URL: "http://" + srv.Listener.Addr().String() + "/", t: t, model: model}
	options := sim.Options{
		Model: model, BaseURL: s.URL, Bucket: blob.NewMem(), Staging: blob.NewMem(), Generator: "insteptest",
		ChangeListMax: o.MaxList, MaxEntries: o.MaxList, Dumps: o.Dumps, Keep: o.Keep,
	}
	if o.Archives {
		options.Archive = &source.Archive{}
	}
	if s.sim, err = sim.NewSource(options); err != nil {
		t.Fatal(err)
	}
	s.Advance(0)
	srv.Config.Handler = s.sim
	srv.Start()
	t.Cleanup(srv.Close)
	return s
}

// Advance moves the Source's time on by d and publishes the changes of that time. It
// returns the number of changes. It is not safe for concurrent use.
func (s *Source) Advance(d time.Duration) int64 {
	s.t.Helper()
	n, err := s.sim.Round(s.t.Context(), d)
	if err != nil {
		s.t.Fatal(err)
	}
	return n.Sum()
}

// Misbehave switches exactly these faults on, from the next request on, each alone or with
// a share of its targets: "wrong-bytes", "truncate=50%", "34".
func (s *Source) Misbehave(ways ...string) {
	s.t.Helper()
	on, err := sim.ParseSwitches(strings.Join(ways, ","))
	if err != nil {
		s.t.Fatal(err)
	}
	s.sim.Switch(on...)
}

// Behave switches all faults off, also those of single documents.
func (s *Source) Behave() {
	s.sim.Switch()
	s.sim.Override(nil)
}

// Document is a document of a Source: a list, a dump, a manifest, an index, a Capability
// List or the Source Description.
type Document struct {
	URI         string
	Kind        string // its capability, with "-index" for an index
	Generations int    // number of publications that changed it, at least 1
}

// Documents returns all documents that the Source publishes or published, by URI. Beyond
// 16 MiB the oldest generations are forgotten.
func (s *Source) Documents() []Document {
	var all []Document
	for _, d := range s.sim.Documents() {
		all = append(all, Document{URI: s.URL + d.Path, Kind: d.Kind, Generations: d.Generations})
	}
	return all
}

// Override changes how one document is served. The zero Override changes nothing.
type Override struct {
	// Cached serves the document from a cache, with the ETag, Last-Modified and Date of
	// then and an Age, even if the Source has removed it.
	Cached bool
	// Back is how many generations older than the newest the cached answer is.
	Back int
	// Hard lets the cache answer requests with Cache-Control: no-cache too.
	Hard bool
	// Status withdraws the document: the Source answers with 404 or 500, for example. A
	// cached answer is not affected.
	Status int
}

// Override changes how these documents are served, by URI, from the next request on; all
// others are served unchanged.
func (s *Source) Override(of map[string]Override) {
	s.t.Helper()
	all := map[string]sim.Override{}
	for uri, o := range of {
		path, ok := strings.CutPrefix(uri, s.URL)
		if !ok {
			s.t.Fatalf("%s is no document of %s", uri, s.URL)
		}
		all[path] = sim.Override(o)
	}
	s.sim.Override(all)
}

// Resources returns the present resources of the Source, by URI.
func (s *Source) Resources() map[string]Resource {
	all := map[string]Resource{}
	for set := range s.model.Sets() {
		for r := range s.model.Resources(set) {
			all[s.URL+r.Path] = Resource{Length: r.Length, SHA256: hex.EncodeToString(r.SHA256[:]), Type: r.Type}
		}
	}
	return all
}

// Misbehaviours lists the names that Misbehave accepts, each with its meaning.
func Misbehaviours() map[string]string {
	all := map[string]string{}
	for _, sw := range sim.Switches() {
		all[sw.Name] = sw.Says
	}
	return all
}
