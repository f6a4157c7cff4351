package destination_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/internal/patch"
	"instep/mirror"
	"instep/resourcesync"
	"instep/transfer"
)

// patched is one case of a resource that has changed and has a patch.
type patched struct {
	kind        patch.Kind
	from        string // the patch is made from these bytes; "": the ones held
	mediaType   string // of the link; "": that of the kind
	spoil       func([]byte) []byte
	entry       func(*resourcesync.Entry) // changes the entry of the change
	link        func(*resourcesync.Link)  // and the link
	held        func(path string)         // changes the file that is held
	set         func(*destination.Destination)
	want        transfer.PatchCounts // of Used and Failed
	patchAsked  int
	wholeAsked  int
	before      []resourcesync.Change // changes before this one, without a patch
	beforeAfter string
}

var (
	heldJSON = `{"items":[` + strings.Repeat(`{"id":1,"title":"a vase"},`, 30) + `{"id":2,"title":"a jug"}]}`
	nextJSON = strings.Replace(heldJSON, "a jug", "a large jug", 1)
	used     = transfer.PatchCounts{Used: 1}
	failed   = transfer.PatchCounts{Failed: 1}
)

// A patch is used from the bytes that are held alone, and its result only if it is what the
// Source lists; else the resource is fetched whole.
func TestCat_PAT_01(t *testing.T) {
	other := strings.Replace(heldJSON, "a vase", "a bowl", 3)
	testPatches(t, map[string]patched{
		"JSON Patch":                        {kind: patch.JSON, want: used, patchAsked: 1},
		"JSON Patch as in Example 27":       {kind: patch.JSON, mediaType: "application/json-patch", want: used, patchAsked: 1},
		"Zstandard":                         {kind: patch.Zstd, want: used, patchAsked: 1},
		"VCDIFF":                            {kind: patch.VCDIFF, want: used, patchAsked: 1},
		"VCDIFF for another base":           {kind: patch.VCDIFF, from: heldJSON[1:], want: failed, patchAsked: 1, wholeAsked: 1},
		"JSON Patch for another base":       {kind: patch.JSON, from: other, want: failed, patchAsked: 1, wholeAsked: 1},
		"Zstandard for another base":        {kind: patch.Zstd, from: other, want: failed, patchAsked: 1, wholeAsked: 1},
		"other bytes than the link says":    {kind: patch.Zstd, spoil: func(b []byte) []byte { b[len(b)-1]++; return b }, link: noDigest, want: failed, patchAsked: 1, wholeAsked: 1},
		"a patch that is cut":               {kind: patch.Zstd, spoil: func(b []byte) []byte { return b[:len(b)-3] }, want: failed, patchAsked: 1, wholeAsked: 1},
		"a patch that is not there":         {kind: patch.Zstd, link: func(l *resourcesync.Link) { l.Href += "/none" }, want: failed, wholeAsked: 1},
		"the change has no digest":          {kind: patch.JSON, entry: func(e *resourcesync.Entry) { e.Digests = nil }, wholeAsked: 1},
		"the change has no length":          {kind: patch.JSON, entry: func(e *resourcesync.Entry) { e.Length = resourcesync.Length{} }, wholeAsked: 1},
		"a creation":                        {kind: patch.JSON, entry: func(e *resourcesync.Entry) { e.Change = resourcesync.Created }, wholeAsked: 1},
		"the patch is longer":               {kind: patch.JSON, link: func(l *resourcesync.Link) { l.Length = resourcesync.Bytes(int64(len(nextJSON)) + 1) }, wholeAsked: 1},
		"another host":                      {kind: patch.JSON, link: func(l *resourcesync.Link) { l.Href = "ftp://127.0.0.1/p" }, wholeAsked: 1},
		"the held bytes have rotted":        {kind: patch.JSON, held: rot, want: failed, wholeAsked: 1},
		"the held bytes are gone":           {kind: patch.JSON, held: func(path string) { _ = os.Remove(path) }, want: failed, wholeAsked: 1},
		"patches are not wanted":            {kind: patch.JSON, set: func(d *destination.Destination) { d.NoPatches = true }, wholeAsked: 1},
		"a change before it has no patch":   {kind: patch.JSON, before: []resourcesync.Change{resourcesync.Updated}, wholeAsked: 1},
		"it was deleted and came back":      {kind: patch.JSON, before: []resourcesync.Change{resourcesync.Deleted}, wholeAsked: 1},
		"a change before it that was to it": {kind: patch.JSON, before: []resourcesync.Change{resourcesync.Updated}, beforeAfter: heldJSON, want: used, patchAsked: 1},
	})
}

// JSON that is equal and spelled otherwise is another version: a JSON Patch that makes it is
// of no use, and the run says what that cost.
func TestCat_PAT_03(t *testing.T) {
	spaced := strings.ReplaceAll(nextJSON, `,"`, `, "`)
	sorted := strings.ReplaceAll(nextJSON, `{"id":1,"title":"a vase"}`, `{"title":"a vase","id":1}`)
	number := strings.ReplaceAll(nextJSON, `"id":2`, `"id":2.0`)
	for name, next := range map[string]string{"spaces": spaced, "order of keys": sorted, "form of numbers": number, "a last line end": nextJSON + "\n"} {
		t.Run(name, func(t *testing.T) {
			s, m := heldAs(t, heldJSON)
			made := []byte(`[{"op":"replace","path":"/items/30/title","value":"a large jug"}]`)
			s.put("/p", made)
			s.put("/r", []byte(next))
			e := s.change(1, resourcesync.Updated, "/r")
			e.Links = append(e.Links, s.patchLink(patch.JSON, made))
			s.changes(0, e)
			rep := m.mustSync(destination.Incremental, 0, 0, 1, 0)
			if rep.Patches != (transfer.PatchCounts{Failed: 1, Wasted: int64(len(made))}) {
				t.Errorf("patches: %+v", rep.Patches)
			}
			if m.files()["/r"] != next {
				t.Errorf("held: %.80q", m.files()["/r"])
			}
			if !slices.ContainsFunc(m.notes, func(n string) bool {
				return strings.Contains(n, "could not be made by its patch") && strings.Contains(n, fmt.Sprint(len(made), " bytes of patches"))
			}) {
				t.Errorf("notes: %q", m.notes)
			}
		})
	}
}

// A patch of an unknown kind is not asked for, and one that explodes is refused.
func TestCat_PAT_04(t *testing.T) {
	bomb := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"","path":"/items/-"},`, 15), ",") + "]")
	testPatches(t, map[string]patched{
		"an unknown kind": {kind: patch.Zstd, mediaType: "application/x-tiff-diff", wholeAsked: 1},
		"XML Patch":       {kind: patch.Zstd, mediaType: "application/patch-ops-error+xml", wholeAsked: 1},
		"a bomb":          {kind: patch.JSON, spoil: func([]byte) []byte { return bomb }, want: failed, patchAsked: 1, wholeAsked: 1},
		"no patch at all": {kind: patch.JSON, spoil: func([]byte) []byte { return []byte("<html>no patch</html>") }, want: failed, patchAsked: 1, wholeAsked: 1},
	})
}

// A run that ends while a patch is on its way, or after it came, leaves the held bytes as they
// are; the next run uses the patch.
func TestCat_PAT_04_interrupted(t *testing.T) {
	s, m := heldAs(t, heldJSON)
	made := []byte(`[{"op":"replace","path":"/items/30/title","value":"a large jug"}]`)
	s.put("/r", []byte(nextJSON))
	e := s.change(1, resourcesync.Updated, "/r")
	e.Links = append(e.Links, s.patchLink(patch.JSON, made))
	s.changes(0, e)
	for _, sent := range []int{0, len(made) / 2, len(made)} {
		err := m.with(func(ctx context.Context, d *destination.Destination, mm *mirror.Mirror) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			s.answer("/p", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(made)))
				_, _ = w.Write(made[:sent])
				cancel()
				if sent < len(made) {
					<-r.Context().Done() // the client goes away
				}
			})
			plan, err := d.Plan(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer plan.Close()
			_, err = d.Apply(ctx, plan)
			return err
		})
		if got := m.files()["/r"]; got != heldJSON && (got != nextJSON || sent < len(made)) {
			t.Errorf("after %d bytes: %v, held %.80q", sent, err, got)
		}
		if sent < len(made) && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d bytes: got %v", sent, err)
		}
	}
	s.answer("/p", nil)
	s.put("/p", made)
	if _, err := m.sync(); err != nil || m.files()["/r"] != nextJSON {
		t.Errorf("the next run: %v, held %.80q", err, m.files()["/r"])
	}
}

func noDigest(l *resourcesync.Link) { l.Digests = nil }

// rot changes a file and leaves its size and times.
func rot(path string) {
	info, err := os.Stat(path)
	body, failed := os.ReadFile(path)
	if err != nil || failed != nil {
		panic("the file is not held")
	}
	body[len(body)/2]++
	if os.WriteFile(path, body, 0o644) != nil || os.Chtimes(path, info.ModTime(), info.ModTime()) != nil {
		panic("the file cannot be changed")
	}
}

// heldAs is a Source of one resource /r and a mirror that holds it.
func heldAs(t *testing.T, body string) (*aSource, *aMirror) {
	s := newSource(t)
	s.put("/r", []byte(body))
	s.list(0, "/r")
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 1, 0, 0)
	s.asked("/")
	return s, m
}

func (s *aSource) patchLink(kind patch.Kind, made []byte) resourcesync.Link {
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = h.Write(made)
	return resourcesync.Link{
		Rel: resourcesync.RelPatch, Href: s.uri("/p"), Type: string(kind),
		Length: resourcesync.Bytes(int64(len(made))), Digests: h.Digests(),
	}
}

func testPatches(t *testing.T, cases map[string]patched) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, m := heldAs(t, heldJSON)
			from := heldJSON
			if c.from != "" {
				from = c.from
			}
			made, err := patch.Make(t.Context(), c.kind, []byte(from), []byte(nextJSON))
			if c.from != "" && c.kind == patch.JSON {
				made, err = []byte(`[{"op":"replace","path":"/items/29/title","value":"a large jug"}]`), nil
			}
			if err != nil || made == nil {
				t.Fatalf("no patch was made: %v", err)
			}
			if c.spoil != nil {
				made = c.spoil(bytes.Clone(made))
			}
			var changes []resourcesync.Entry
			for i, change := range c.before {
				between := "a version in between"
				if c.beforeAfter != "" {
					between = c.beforeAfter
				}
				s.put("/r", []byte(between))
				changes = append(changes, s.change(1+i, change, "/r"))
			}
			s.put("/p", made)
			s.put("/r", []byte(nextJSON))
			e, l := s.change(5, resourcesync.Updated, "/r"), s.patchLink(c.kind, made)
			if c.mediaType != "" {
				l.Type = c.mediaType
			}
			if c.link != nil {
				c.link(&l)
			}
			e.Links = append(e.Links, l)
			if c.entry != nil {
				c.entry(&e)
			}
			s.changes(0, append(changes, e)...)
			if c.held != nil {
				c.held(filepath.Join(m.dir, "r"))
			}
			m.set = c.set
			rep := m.mustSync(destination.Incremental, 0, 0, 1, 0)
			if got := (transfer.PatchCounts{Used: rep.Patches.Used, Failed: rep.Patches.Failed}); got != c.want {
				t.Errorf("patches: %+v, want %+v; notes %q", rep.Patches, c.want, m.notes)
			}
			if got := s.asked("/p"); c.want.Failed == 0 && got != c.patchAsked {
				t.Errorf("the patch was asked for %d times, want %d", got, c.patchAsked)
			}
			if got := s.asked("/r"); got != c.wholeAsked {
				t.Errorf("the resource was asked for %d times, want %d", got, c.wholeAsked)
			}
			if got := m.files()["/r"]; got != nextJSON {
				t.Errorf("held: %.80q", got)
			}
			if rep.Patches.Used == 1 && rep.Via[destination.ViaPatch] != 1 {
				t.Errorf("by way: %v", rep.Via)
			}
		})
	}
}

// Changes that were missed are made good by their patches one after the other, from the
// version that is held.
func TestPatchesInARow(t *testing.T) {
	first := `{"before":"` + strings.Repeat("long ", 1000) + `",` + heldJSON[1:]
	versions := []string{first}
	for i := range 20 {
		versions = append(versions, strings.Replace(first, "a jug", fmt.Sprint("jug number ", i), 1))
	}
	for _, missed := range []int{2, 16, 17} {
		t.Run(fmt.Sprint(missed), func(t *testing.T) {
			s, m := heldAs(t, first)
			var changes []resourcesync.Entry
			for i := range missed {
				made, err := patch.Make(t.Context(), patch.JSON, []byte(versions[i]), []byte(versions[i+1]))
				if err != nil || made == nil {
					t.Fatal(err)
				}
				s.put("/r", []byte(versions[i+1]))
				path := fmt.Sprint("/p", i)
				s.put(path, made)
				e, l := s.change(1+i, resourcesync.Updated, "/r"), s.patchLink(patch.JSON, made)
				l.Href = s.uri(path)
				e.Links = append(e.Links, l)
				changes = append(changes, e)
			}
			s.changes(0, changes...)
			rep := m.mustSync(destination.Incremental, 0, 0, 1, 0)
			want := int64(1)
			if missed > 16 {
				want = 0
			}
			if rep.Patches.Used != want || m.files()["/r"] != versions[missed] {
				t.Errorf("patches %+v, held %.80q", rep.Patches, m.files()["/r"])
			}
		})
	}
}

// Where the patches of a Source are of no use, a run stops to ask for them.
func TestPatchesInVain(t *testing.T) {
	s := newSource(t)
	var paths []string
	for i := range 100 {
		paths = append(paths, fmt.Sprint("/r/", i))
		s.put(paths[i], []byte(fmt.Sprint(i, heldJSON)))
	}
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 100, 0, 0)
	s.answer("/p", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`[]`)) })
	var changes []resourcesync.Entry
	for i, path := range paths {
		s.put(path, []byte(fmt.Sprint(i, nextJSON)))
		e := s.change(1, resourcesync.Updated, path)
		e.Links = append(e.Links, s.patchLink(patch.JSON, []byte(`[]`)))
		changes = append(changes, e)
	}
	s.changes(0, changes...)
	s.asked("/")
	rep := m.mustSync(destination.Incremental, 0, 0, 100, 0)
	if n := s.asked("/p"); n < 20 || n > 24 || rep.Patches.Failed != int64(n) || rep.Patches.Used != 0 {
		t.Errorf("patches were asked for %d times: %+v", n, rep.Patches)
	}
}
