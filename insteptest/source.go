// Package insteptest serves a Source for tests of programs that read ResourceSync
// Sources. The Source changes over time, has every capability, and on request makes the
// faults of real Sources.
//
//	func TestHarvester(t *testing.T) {
//		src := insteptest.NewSource(t, insteptest.Options{Resources: 50, Dumps: true})
//		harvest(src.URL)
//		src.Advance(time.Minute)            // one minute passes there, and resources change
//		src.Misbehave("wrong-bytes")        // from now on, some bytes are wrong
//		harvest(src.URL)
//		src.Behave()
//		harvest(src.URL)
//		compare(src.Resources())            // all resources that it has now
//	}
//
// [Misbehaviours] lists its faults, which docs/simulate.md describes: those known from
// existing Sources have a number, the others a name. [Source.Override] serves a single
// document from a cache, or with an error status. The same Seed gives the same resources
// and the same changes.
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

// Options configure a Source. The zero value is usable.
type Options struct {
	Seed      uint64        // seed of all random choices
	Resources int           // number of resources at the start; default 20
	MaxLength int64         // size of the largest resource in bytes; default 2,000
	Rate      float64       // changes per second of the Source's time; default 1
	Sets      int           // number of sets of resources; default 1
	Dumps     bool          // whether the Source publishes Resource Dumps and Change Dumps (1.1 §11, §13)
	Archives  bool          // whether the Source archives its lists and dumps
	MaxList   int           // largest number of entries in a Resource List or Change List, at most 50,000; default 5,000
	Keep      time.Duration // how long replaced documents can still be requested, by the Source's clock; default 1 h
}

// Source is a simulated Source that is served on the loopback interface until the test
// ends.
type Source struct {
	// URL is the base URL of the Source, with a slash at its end. It can be given to a
	// program that discovers Sources.
	URL string

	t     testing.TB
	model *sim.Model
	sim   *sim.Source
}

// Resource is the current state of a resource of a Source.
type Resource struct {
	Length int64
	SHA256 string // in hex
	Type   string
}

// start is a fixed time, so that all times are the same in every run.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// NewSource creates a Source, publishes it and serves it. An error fails the test.
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

// Advance moves the Source's clock forward by d and publishes the changes of that time.
// It returns the number of changes. It is not safe for concurrent use.
func (s *Source) Advance(d time.Duration) int64 {
	s.t.Helper()
	n, err := s.sim.Round(s.t.Context(), d)
	if err != nil {
		s.t.Fatal(err)
	}
	return n.Sum()
}

// Misbehave turns the given faults on, and all others off, from the next request on. A fault
// is a name or number of Misbehaviours. The percentage of affected URIs or responses may
// follow: "wrong-bytes", "truncate=50%", "34".
func (s *Source) Misbehave(faults ...string) {
	s.t.Helper()
	on, err := sim.ParseSwitches(strings.Join(faults, ","))
	if err != nil {
		s.t.Fatal(err)
	}
	s.sim.Switch(on...)
}

// Behave turns all faults off, including the overrides of single documents.
func (s *Source) Behave() {
	s.sim.Switch()
	s.sim.Override(nil)
}

// Document is a document of a Source: a list, a dump, a manifest, an index, a Capability
// List or the Source Description.
type Document struct {
	URI         string
	Kind        string // capability of the document, followed by "-index" if the document is an index
	Generations int    // number of stored versions of the document, at least 1
}

// Documents returns all documents that the Source has published, in the order of their
// URIs. The Source stores up to 16 MiB of versions of its documents (generations). If there
// are more, the oldest versions are dropped.
func (s *Source) Documents() []Document {
	var all []Document
	for _, d := range s.sim.Documents() {
		all = append(all, Document{URI: s.URL + d.Path, Kind: d.Kind, Generations: d.Generations})
	}
	return all
}

// Override changes how one document is served. The zero Override changes nothing.
type Override struct {
	// Cached means that a simulated cache answers with a stored version of the document and
	// the headers ETag, Last-Modified, Date and Age, even if the Source has removed the
	// document.
	Cached bool
	// Back is the number of stored versions that are newer than the one that the cache sends.
	Back int
	// Hard means that the cache also answers requests with Cache-Control: no-cache.
	Hard bool
	// Status is the HTTP status with which the Source answers, such as 404; 0 means the
	// usual one. It does not affect responses of the cache.
	Status int
}

// Override changes how single documents are served, from the next request on. The keys of
// the map are the URIs of the documents. All other documents are served as usual.
func (s *Source) Override(of map[string]Override) {
	s.t.Helper()
	all := map[string]sim.Override{}
	for uri, o := range of {
		path, ok := strings.CutPrefix(uri, s.URL)
		if !ok {
			s.t.Fatalf("%s is not the URI of a document of %s", uri, s.URL)
		}
		all[path] = sim.Override(o)
	}
	s.sim.Override(all)
}

// Resources returns the current resources of the Source, by URI.
func (s *Source) Resources() map[string]Resource {
	all := map[string]Resource{}
	for set := range s.model.Sets() {
		for r := range s.model.Resources(set) {
			all[s.URL+r.Path] = Resource{Length: r.Length, SHA256: hex.EncodeToString(r.SHA256[:]), Type: r.Type}
		}
	}
	return all
}

// Misbehaviours returns the names that Misbehave accepts, each with its meaning.
func Misbehaviours() map[string]string {
	all := map[string]string{}
	for _, sw := range sim.Switches() {
		all[sw.Name] = sw.Says
	}
	return all
}
