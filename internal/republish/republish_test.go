package republish

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
)

const (
	origin = "http://origin.example.org/"
	base   = "https://copy.example.org/m/"
)

// fake is a Mirror in memory.
type fake struct {
	names     []string // of the sets
	sets      map[string][]destination.Held
	committed map[string]time.Time
	touched   map[string]bool // by URI
	shares    bool
	unsteady  int    // how often Steady fails
	listing   func() // called when members are listed; nil: nothing
	opened    int
}

func (f *fake) Sets(context.Context) ([]string, error) { return f.names, nil }

func (f *fake) Committed(_ context.Context, set string) (time.Time, bool, error) {
	at, ok := f.committed[set]
	return at, ok, nil
}

func (f *fake) MembersOf(_ context.Context, sets []string) iter.Seq2[[]destination.Held, error] {
	if f.listing != nil {
		f.listing()
	}
	all := map[resourcesync.Key][]destination.Held{}
	for i, set := range sets {
		for _, h := range f.sets[set] {
			key := resourcesync.KeyOf(h.URI)
			if all[key] == nil {
				all[key] = make([]destination.Held, len(sets))
			}
			all[key][i] = h
		}
	}
	return func(yield func([]destination.Held, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(all[key], nil) {
				return
			}
		}
	}
}

func (f *fake) Lookup(_ context.Context, _ string, uris []string) ([]destination.Held, error) {
	found := make([]destination.Held, len(uris))
	for i, uri := range uris {
		for _, all := range f.sets {
			for _, h := range all {
				if h.URI == uri {
					found[i] = h
				}
			}
		}
	}
	return found, nil
}

func (f *fake) Untouched(_ context.Context, h *destination.Held) (bool, error) {
	return !f.touched[h.URI], nil
}

func (f *fake) Catalog(context.Context) (string, error) { return "fake", nil }

func (f *fake) LogEnd(context.Context) (int64, time.Time, error) { return 0, time.Time{}, nil }

func (f *fake) LogHas(context.Context, int64, time.Time) (bool, error) { return false, nil }

func (f *fake) EachLogged(context.Context, int64, int64, []string, func(int64, time.Time, []destination.Held) error) error {
	return nil
}

func (f *fake) Kept(context.Context, *destination.Held) (string, error) { return "", nil }

func (f *fake) Shares() bool { return f.shares }
func (f *fake) Close() error { return nil }

func (f *fake) Steady() error {
	if f.unsteady--; f.unsteady >= 0 {
		return errors.New("a run has begun")
	}
	return nil
}

func digests(t *testing.T, text string) resourcesync.Digests {
	t.Helper()
	h := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
	_, _ = h.Write([]byte(text))
	return h.Digests()
}

var lastMod = resourcesync.DatetimeOf(time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC))

// held is a resource of the origin whose md5 the Source gave.
func held(t *testing.T, name string, change func(*destination.Held)) destination.Held {
	t.Helper()
	h := destination.Held{
		URI: scan.URI(origin, name), Path: name, Stored: true, Member: true, Verified: true, Length: resourcesync.Bytes(int64(len(name))),
		Digests: digests(t, name), Proof: resourcesync.MD5, Type: "text/plain", LastMod: lastMod, Changed: lastMod.Time(),
	}
	if change != nil {
		change(&h)
	}
	return h
}

// saying gives a resource what the Source says of it besides.
func saying(text string) func(*destination.Held) {
	return func(h *destination.Held) { h.Remainder = harvest.NewRemainder(text) }
}

// listed lists a mirror with one set.
func listed(t *testing.T, f *fake, o Options, rules ...scan.Rule) []scan.Listed {
	t.Helper()
	l := &lister{Options: &o, m: f, base: base, rules: rules}
	if err := l.chooseSets(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []scan.Listed
	for e, err := range l.list(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// links are the links of what is listed, one a line.
func links(t *testing.T, e *scan.Listed) string {
	t.Helper()
	said, err := resourcesync.ParseRemainder(e.Remainder)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range said.Links {
		line := l.Rel + " " + l.Href
		if !l.Modified.IsZero() {
			line += " modified=" + l.Modified.String()
		}
		if len(l.Digests) > 0 {
			line += " hash=" + string(l.Digests[0].Algorithm())
		}
		if l.Length.Known() {
			line += " length"
		}
		if l.Type != "" {
			line += " type=" + l.Type
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestEntries: what is listed of a resource, by what the Source says of it (1.1 §14.8).
func TestEntries(t *testing.T) {
	via := "via " + origin + "a%20b.txt modified=2024-02-01T00:00:00Z hash=md5 length type=text/plain"
	first := `{"rel":"via","href":"http://first.example.org/a","modified":"2020-01-01","hash":"md5:00000000000000000000000000000000","length":7}`
	for _, test := range []struct {
		name   string
		change func(*destination.Held)
		o      Options
		rules  []scan.Rule
		uri    string // "" is that of the copy
		links  string
		out    scan.Reason
	}{
		{name: "plain", links: via},
		{name: "nothing was checked", change: func(h *destination.Held) { h.Verified = false }, out: scan.Unverified,
			links: "via " + origin + "a%20b.txt modified=2024-02-01T00:00:00Z type=text/plain"},
		{name: "a length was checked", change: func(h *destination.Held) { h.Proof = "" },
			links: "via " + origin + "a%20b.txt modified=2024-02-01T00:00:00Z length type=text/plain"},
		{name: "the first origin stays", change: saying(`{"links":[` + first + `]}`),
			links: "via http://first.example.org/a modified=2020-01-01 hash=md5 length"},
		{name: "one via of several", change: saying(`{"links":[` + first + `,{"rel":"via","href":"http://second.example.org/a"}]}`),
			links: "via http://first.example.org/a modified=2020-01-01 hash=md5 length"},
		{name: "ours came back", change: saying(`{"links":[{"rel":"via","href":"` + base + `a"}]}`), out: scan.Loop, links: "via " + base + "a"},
		{name: "links of the origin", links: "license http://example.org/l\n" + via, change: saying(`{"links":[
			{"rel":"collection","href":"http://origin.example.org/all"},{"rel":"canonical","href":"http://origin.example.org/a"},
			{"rel":"alternate","href":"http://origin.example.org/a.en"},{"rel":"duplicate","href":"http://other.example.org/a"},
			{"rel":"http://www.openarchives.org/rs/terms/patch","href":"http://origin.example.org/p"},
			{"rel":"memento","href":"http://origin.example.org/m"},{"rel":"timegate","href":"http://origin.example.org/t"},
			{"rel":"license","href":"http://example.org/l"}]}`)},
		{name: "links that a rule keeps", links: "collection http://origin.example.org/all\n" + via, rules: []scan.Rule{{Match: "*.txt", KeepLinks: "collection memento"}},
			change: saying(`{"links":[{"rel":"collection","href":"http://origin.example.org/all"},{"rel":"canonical","href":"http://origin.example.org/a"}]}`)},
		{name: "metadata that is held, and that is not", links: "describedby " + base + "d/about.xml\ndescribes " + origin + "nowhere\n" + via,
			change: saying(`{"links":[{"rel":"describedby","href":"` + origin + `d/about.xml"},{"rel":"describes","href":"` + origin + `nowhere"}]}`)},
		{name: "links that no document can have", links: "license http://example.org/l\n" + via, change: saying(`{"links":[
			{"rel":"license","href":"relative"},{"rel":"license","href":"http://example.org/l"},{"rel":"author","href":"http://example.org/\u00e9"}]}`)},
		{name: "under its own URI", o: Options{OriginalURIs: true}, uri: origin + "a%20b.txt", links: "duplicate " + base + "a%20b.txt"},
		{name: "under the URI of the first origin", o: Options{OriginalURIs: true}, uri: "http://first.example.org/a", links: "duplicate " + base + "a%20b.txt",
			change: saying(`{"links":[` + first + `]}`)},
		{name: "due", change: func(h *destination.Held) { h.Due = "changed" }, out: scan.Due, links: via},
		{name: "due, and told to be listed", change: func(h *destination.Held) { h.Due = "changed" }, o: Options{Also: []Doubt{scan.Due}}, links: via},
		{name: "without bytes", change: func(h *destination.Held) { h.Stored, h.Due = false, "new" }, o: Options{Also: []Doubt{scan.Due}}, out: scan.Due, links: via},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{names: []string{"s"}, committed: map[string]time.Time{"s": lastMod.Time()}, sets: map[string][]destination.Held{
				"s": {held(t, "a b.txt", test.change), held(t, "d/about.xml", nil)},
			}}
			e := listed(t, f, test.o, test.rules...)[0]
			if want := cmp.Or(test.uri, base+"a%20b.txt"); e.URI != want {
				t.Errorf("URI: got %q, want %q", e.URI, want)
			}
			if got := links(t, &e); got != test.links {
				t.Errorf("links: got\n%s\nwant\n%s", got, test.links)
			}
			if e.Out != test.out || e.LastMod != lastMod || e.Type != "text/plain" || e.Path != "a b.txt" || !e.Told {
				t.Errorf("got %+v, want it left out for %q", e, test.out)
			}
		})
	}
}

// TestOriginsOfItsOwnChoosing: a Source gives several resources one via, one that is another
// resource of its own, or one that nothing can be listed under. Each is listed once.
func TestOriginsOfItsOwnChoosing(t *testing.T) {
	via := func(href string) func(*destination.Held) {
		return saying(`{"links":[{"rel":"via","href":"` + href + `"}]}`)
	}
	first := "http://first.example.org/x"
	f := &fake{names: []string{"s"}, committed: map[string]time.Time{"s": lastMod.Time()}, sets: map[string][]destination.Held{"s": {
		held(t, "a", via(first)), held(t, "b", via(first)), held(t, "c", via(origin+"d")), held(t, "d", nil),
		held(t, "e", via("urn:x:1")), held(t, "f", via("http://u:p@first.example.org/f")), held(t, "g", via("/relative")),
	}}}
	var got []string
	for _, e := range listed(t, f, Options{OriginalURIs: true}) {
		got = append(got, e.URI)
	}
	if want := []string{first, origin + "b", origin + "c", origin + "d", origin + "e", origin + "f", origin + "g"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, e := range listed(t, f, Options{}) {
		if e.Path == "g" && links(t, &e) != links(t, &listed(t, &fake{names: f.names, committed: f.committed,
			sets: map[string][]destination.Held{"s": {held(t, "g", nil)}}}, Options{})[0]) {
			t.Errorf("got %q, want the Source as the origin of what has no other", links(t, &e))
		}
	}
}

// TestWhatIsSaidStays: encoding, changefreq, priority and what other vocabularies say.
func TestWhatIsSaidStays(t *testing.T) {
	said := `{"encoding":"gzip","changefreq":"weekly","priority":"0.5","attributes":[{"namespace":"http://example.org/t","name":"x","value":"1"}],"foreign":"<x xmlns=\"http://example.org/t\"/>"}`
	f := &fake{names: []string{"s"}, committed: map[string]time.Time{"s": lastMod.Time()}, touched: map[string]bool{origin + "b": true},
		sets: map[string][]destination.Held{"s": {held(t, "a", saying(said)), held(t, "b", nil)}}}
	all := listed(t, f, Options{})
	e := all[0]
	got, err := resourcesync.ParseRemainder(e.Remainder)
	if err != nil {
		t.Fatal(err)
	}
	if e.Encoding != "gzip" || e.ChangeFreq != resourcesync.Weekly || got.Priority.IsZero() || len(got.Attrs) != 1 || got.Foreign == "" || got.Encoding != "" {
		t.Errorf("got %+v with %+v", e, got)
	}
	if !all[0].Intact || all[1].Intact {
		t.Errorf("intact: got %v and %v, want only the file that nobody has touched", all[0].Intact, all[1].Intact)
	}
}

// TestSetsAreListedTogether: each resource once, as the set says that changed last; what is
// kept in an earlier state is in doubt.
func TestSetsAreListedTogether(t *testing.T) {
	at := lastMod.Time()
	f := &fake{names: []string{"one", "two", "half", "kept"}, committed: map[string]time.Time{"one": at.Add(time.Hour), "two": at},
		sets: map[string][]destination.Held{
			"one":  {held(t, "a", nil), held(t, "c", func(h *destination.Held) { h.Type = "text/old" })},
			"two":  {held(t, "b/x", nil), held(t, "c", func(h *destination.Held) { h.Type, h.Changed = "text/new", at.Add(time.Hour) })},
			"half": {held(t, "never", nil)},
			"kept": {held(t, "a", nil)},
		}}
	o := Options{Kept: "kept"}
	l := &lister{Options: &o, m: f, base: base}
	if err := l.chooseSets(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !l.at.Equal(at) || len(l.notes) != 1 || !strings.Contains(l.notes[0], "half") {
		t.Errorf("at %v with notes %q; want that of the earlier set, and a note of the one that is not complete", l.at, l.notes)
	}
	var got []string
	for e, err := range l.list(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimPrefix(e.URI, base)+" "+e.Type+" "+string(e.Out))
	}
	if want := []string{"a text/plain held", "c text/new ", "b/x text/plain "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, test := range []struct {
		sets []string
		want string
	}{{[]string{"half"}, ErrNoBaseline.Error()}, {[]string{"none"}, `no set "none"`}} {
		err := (&lister{Options: &Options{Sets: test.sets, Kept: "kept"}, m: f}).chooseSets(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("sets %q: got %v, want %q", test.sets, err, test.want)
		}
	}
}

// TestPlan: the moment of the plan is that of the mirror, a listing that a run disturbs is
// made anew, and a mirror whose resources share files has no URIs of its own.
func TestPlan(t *testing.T) {
	c, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(t.TempDir(), "catalog.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set, err := c.Facts.Set(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name             string
		unsteady, opened int
		shares           bool
		want             error
	}{
		{name: "steady", opened: 1},
		{name: "disturbed once", unsteady: 1, opened: 2},
		{name: "disturbed each time", unsteady: 9, opened: maxListings, want: ErrDisturbed},
		{name: "flat", shares: true, opened: 1, want: ErrShared},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &fake{names: []string{"s"}, committed: map[string]time.Time{"s": lastMod.Time()}, unsteady: test.unsteady, shares: test.shares,
				sets: map[string][]destination.Held{"s": {held(t, "a", nil)}}}
			in := Input{
				Mirror: Options{Open: func(context.Context) (Mirror, error) { f.opened++; return f, nil }},
				List:   &scan.List{Deps: scan.Deps{BaseURL: base, Facts: c.Facts, Seen: c.Publisher, Set: set, Now: time.Now, Spool: t.TempDir()}},
			}
			p, err := in.Plan(t.Context())
			if !errors.Is(err, test.want) || f.opened != test.opened {
				t.Fatalf("got %v after %d openings, want %v after %d", err, f.opened, test.want, test.opened)
			}
			if err != nil {
				return
			}
			if !p.At.Equal(lastMod.Time()) || p.New != 1 {
				t.Errorf("got %+v, want one new resource at %v", p, lastMod)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPlanHasTheSetsThatAreComplete: a resource moves from a set to one whose first
// synchronization is complete while the mirror is listed. Of the sets that were complete before
// none has it.
func TestPlanHasTheSetsThatAreComplete(t *testing.T) {
	c, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(t.TempDir(), "catalog.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set, err := c.Facts.Set(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	at := lastMod.Time()
	f := &fake{names: []string{"old", "new"}, committed: map[string]time.Time{"old": at},
		sets: map[string][]destination.Held{"old": {held(t, "a", nil), held(t, "moving", nil)}}}
	f.listing = func() {
		f.committed["new"] = at
		f.sets = map[string][]destination.Held{"old": {held(t, "a", nil)}, "new": {held(t, "moving", nil)}}
	}
	in := Input{
		Mirror: Options{Open: func(context.Context) (Mirror, error) { f.opened++; return f, nil }},
		List:   &scan.List{Deps: scan.Deps{BaseURL: base, Facts: c.Facts, Seen: c.Publisher, Set: set, Now: time.Now, Spool: t.TempDir()}},
	}
	p, err := in.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.New != 2 || f.opened != 2 {
		t.Errorf("got %d resources after %d openings, want both, after the mirror was listed anew", p.New, f.opened)
	}
}
