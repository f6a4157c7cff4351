package publish

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/internal/patch"
	"instep/resourcesync"
)

// line makes a text of 200 lines of which one differs.
func line(n int, what string) string {
	var b strings.Builder
	for i := range 200 {
		if i == n {
			fmt.Fprintln(&b, what)
			continue
		}
		fmt.Fprintf(&b, "line %d of the text\n", i)
	}
	return b.String()
}

// patchesIn returns the patches that the Change List links, by URI of the resource and in order.
func (w *world) patchesIn() map[string][]resourcesync.Link {
	w.t.Helper()
	r, err := os.Open(filepath.Join(w.o.Out, "resourcesync", "changes", "1.xml"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	found := map[string][]resourcesync.Link{}
	for en, err := range resourcesync.NewDecoder(r).Entries() {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, l := range en.Links {
			if l.Rel == resourcesync.RelPatch {
				found[strings.TrimPrefix(en.Loc, base)] = append(found[strings.TrimPrefix(en.Loc, base)], l)
			}
		}
	}
	return found
}

// wantPatch checks that a published patch makes one version of another.
func (w *world) wantPatch(l resourcesync.Link, before, after string) {
	w.t.Helper()
	made, err := os.ReadFile(filepath.Join(w.o.Out, filepath.FromSlash(strings.TrimPrefix(l.Href, base))))
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resourcesync.NewVerifyReader(strings.NewReader(string(made)), l.Length.Int64(), l.Digests)); err != nil {
		w.t.Errorf("%s is not what the link says: %v", l.Href, err)
	}
	kind, _ := patch.KindOf(l.Type)
	got, err := patch.Apply(w.t.Context(), kind, []byte(before), made, 0)
	if err != nil || string(got) != after {
		w.t.Errorf("%s: %v, it makes %.80q", l.Href, err, got)
	}
}

func newPatchWorld(t *testing.T) *world {
	w := newWorld(t)
	w.set.Patches = true
	w.write("a.txt", line(0, "version 0"))
	w.write("b.txt", line(0, "version 0"))
	w.run()
	return w
}

func TestPatches(t *testing.T) {
	w := newPatchWorld(t)
	w.write("a.txt", line(1, "version 1"))
	rep := w.run()
	w.write("a.txt", line(2, "version 2"))
	w.write("b.txt", "nothing in common")
	w.write("c.txt", line(0, "version 0"))
	w.run()
	w.remove("b.txt")
	w.set.MaxDelete = "1"
	w.write("c.txt", line(3, "version 3"))
	w.run()
	found := w.patchesIn()
	if rep.Patches != 1 || rep.Patched != int64(len(line(1, "version 1"))) || rep.PatchBytes != found["a.txt"][0].Length.Int64() {
		t.Errorf("report: %+v", rep.SetReport)
	}
	if len(found["a.txt"]) != 2 || len(found["b.txt"]) != 0 || len(found["c.txt"]) != 1 {
		t.Fatalf("patches: %v", found)
	}
	w.wantPatch(found["a.txt"][0], line(0, "version 0"), line(1, "version 1"))
	w.wantPatch(found["a.txt"][1], line(1, "version 1"), line(2, "version 2"))
	w.wantPatch(found["c.txt"][0], line(0, "version 0"), line(3, "version 3"))
}

// A dry run names the patches, and changes nothing that the next run makes patches from.
func TestPatchesOfADryRun(t *testing.T) {
	w := newPatchWorld(t)
	w.write("a.txt", line(1, "version 1"))
	w.o.DryRun = true
	dry := w.run()
	w.o.DryRun = false
	rep := w.run()
	if dry.Patches != 1 || rep.Patches != 1 || !slices.Equal(dry.Documents, rep.Documents) {
		t.Errorf("dry run %d patches, %q; run %d, %q", dry.Patches, dry.Documents, rep.Patches, rep.Documents)
	}
	w.wantPatch(w.patchesIn()["a.txt"][0], line(0, "version 0"), line(1, "version 1"))
}

// Bases that are not of the last publication make no patches: a crash may leave them behind
// it or before it.
func TestPatchesAfterAnInterruption(t *testing.T) {
	w := newPatchWorld(t)
	w.write("a.txt", line(1, "version 1"))
	w.run()
	mark := filepath.Join(w.o.State, basesName, "default", markKey)
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	w.write("a.txt", line(2, "version 2"))
	if rep := w.run(); rep.Patches != 0 || !rep.Published {
		t.Errorf("patches were made of unknown bytes: %+v", rep.SetReport)
	}
	if err := os.WriteFile(mark, []byte(`{"Through":1}`), 0o600); err != nil { // that of an earlier publication
		t.Fatal(err)
	}
	w.write("a.txt", line(3, "version 3"))
	if rep := w.run(); rep.Patches != 0 {
		t.Errorf("patches were made of old bytes: %+v", rep.SetReport)
	}
	w.write("a.txt", line(4, "version 4"))
	w.run()
	found := w.patchesIn()["a.txt"]
	if len(found) != 2 {
		t.Fatalf("patches: %v", found)
	}
	w.wantPatch(found[1], line(3, "version 3"), line(4, "version 4"))
}

// Patches are switched on later as well: the publication that does so keeps the bytes.
func TestPatchesSwitchedOnAndOff(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", line(0, "version 0"))
	w.run()
	w.set.Patches = true
	if rep := w.run(); !rep.Published {
		t.Error("nothing was published")
	}
	w.write("a.txt", line(1, "version 1"))
	w.run()
	w.set.Patches = false
	w.write("a.txt", line(2, "version 2"))
	w.run()
	if kept := files(t, filepath.Join(w.o.State, basesName)); len(kept) > 0 {
		t.Errorf("bytes are kept for no patches: %q", kept)
	}
	w.set.Patches = true
	w.write("a.txt", line(3, "version 3"))
	w.run()
	found := w.patchesIn()["a.txt"]
	if len(found) != 1 {
		t.Fatalf("patches: %v, want the one of version 1", found)
	}
	w.wantPatch(found[0], line(0, "version 0"), line(1, "version 1"))
}

// A patch is removed with the Change List that has its change.
func TestPatchesAreRemovedWithTheirChangeList(t *testing.T) {
	w := newPatchWorld(t)
	w.set.ChangeListMax, w.set.Policy.KeepChanges = 2, time.Hour
	for i := range 12 {
		w.now = w.now.Add(48 * time.Hour)
		w.write("a.txt", line(i, fmt.Sprint("another version ", i)))
		if rep := w.run(); rep.Patches != 1 {
			t.Fatalf("run %d: %d patches", i, rep.Patches)
		}
	}
	var lists, patches int
	for _, key := range files(t, w.o.Out) {
		if strings.HasPrefix(key, "resourcesync/changes/") {
			lists++
		}
		if strings.HasPrefix(key, "resourcesync/patches/") {
			patches++
		}
	}
	if lists > 6 || patches > 2*lists {
		t.Errorf("%d Change Lists and %d patches stay of 12 publications: %q", lists, patches, files(t, w.o.Out))
	}
}

func TestPatchesNeedBytesAndSHA256(t *testing.T) {
	w := newWorld(t)
	w.set.Patches = true
	w.o.Algorithms = []resourcesync.Algorithm{resourcesync.MD5}
	w.write("a.txt", "a")
	if _, err := w.try(); !errors.As(err, new(*OptionError)) || !strings.Contains(err.Error(), "sha-256") {
		t.Errorf("got %v", err)
	}
}

// A Change Dump has the patch of a change beside its bytes, at the path of the link (1.1 §14.4).
func TestPatchesInChangeDumps(t *testing.T) {
	w := newPatchWorld(t)
	w.set.Dumps = true
	w.run()
	w.write("a.txt", line(1, "version 1"))
	w.write("b.txt", "nothing in common")
	w.run()
	found := w.patchesIn()["a.txt"][0]
	packages, err := filepath.Glob(filepath.Join(w.o.Out, "resourcesync", "changedumps", "*", "*.zip"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages: %q, %v", packages, err)
	}
	z, err := zip.OpenReader(packages[0])
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	r, err := z.Open("manifest.xml")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	linked := 0
	for en, err := range resourcesync.NewDecoder(r).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range en.Links {
			if l.Rel != resourcesync.RelPatch {
				continue
			}
			linked++
			made, err := fs.ReadFile(z, strings.TrimPrefix(l.Path, "/"))
			if err != nil || en.Path == "" || l.Href != found.Href || l.Digests.String() != found.Digests.String() {
				t.Fatalf("%+v: %v", l, err)
			}
			got, err := patch.Apply(t.Context(), patch.Zstd, []byte(line(0, "version 0")), made, 0)
			if err != nil || string(got) != line(1, "version 1") {
				t.Errorf("%v, it makes %.80q", err, got)
			}
		}
	}
	if linked != 1 {
		t.Errorf("%d patches are linked, want 1", linked)
	}
}

// Resources of more than 16 MiB have patches of VCDIFF, from whatever they were before.
func TestPatchesOfLongResources(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: versions of 17 MiB take a while; run without -short")
	}
	noise := func(seed byte, n int) string {
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		return string(b)
	}
	w := newPatchWorld(t)
	var long = []string{noise(1, patch.MaxBytes-10)}
	w.write("a.txt", long[0])
	w.run()
	for _, version := range []string{"before " + long[0] + " after", long[0] + " and so on " + long[0][:1<<20], noise(2, patch.MaxBytes+1), line(1, "short")} {
		long = append(long, version)
		w.write("a.txt", version)
		if rep := w.run(); !rep.Published {
			t.Fatalf("not published: %+v", rep.SetReport)
		}
	}
	found := w.patchesIn()["a.txt"]
	if len(found) != 2 { // none from and to something else, and none from long to short
		t.Fatalf("patches: %v", found)
	}
	for i, l := range found {
		if l.Type != string(patch.VCDIFF) || l.Length.Int64() > 10_000 || !strings.HasSuffix(l.Href, ".vcdiff") {
			t.Errorf("patch %d: %+v", i, l)
		}
		made, err := os.ReadFile(filepath.Join(w.o.Out, filepath.FromSlash(strings.TrimPrefix(l.Href, base))))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if _, err := patch.ApplyVCDIFF(t.Context(), strings.NewReader(long[i]), int64(len(long[i])), bytes.NewReader(made), &got, patch.MaxVCDIFF); err != nil || got.String() != long[i+1] {
			t.Errorf("patch %d makes %d bytes, %v", i, got.Len(), err)
		}
		t.Logf("%d bytes instead of %d", len(made), len(long[i+1]))
	}
}
