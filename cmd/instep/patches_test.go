//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"instep/internal/patch"
	"instep/resourcesync"
)

// editor makes random versions of a resource and edits them.
type editor struct {
	name  string
	first func(*rand.Rand) []byte
	edit  func(*rand.Rand, []byte) []byte
}

// jsonPatchProgram reads the names of three files and writes the result of the second, a JSON
// Patch, to the first into the third.
const jsonPatchProgram = `
import json, jsonpatch, sys
before, patch, after = sys.argv[1:]
made = jsonpatch.apply_patch(json.load(open(before)), json.load(open(patch)))
open(after, 'w').write(json.dumps(made, separators=(',', ':'), ensure_ascii=False))
`

// Random edits of JSON, XML, text and binary files: every patch that is published makes the
// listed bytes with a program of others too, and a mirror takes them.
func TestPatchesOfRandomEdits(t *testing.T) {
	rounds := 5
	if os.Getenv("INSTEP_LONG") != "" {
		rounds = 25
	}
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Skip("SKIPPED: zstd is not installed")
	}
	if err := exec.Command("python3", "-c", "import jsonpatch").Run(); err != nil {
		t.Skip("SKIPPED: python3-jsonpatch is not installed")
	}
	dir := t.TempDir()
	site, mirror, state, old := filepath.Join(dir, "site"), filepath.Join(dir, "mirror"), filepath.Join(dir, "state"), filepath.Join(dir, "old")
	for _, d := range []string{site, old} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(srv.Close)
	rng := rand.New(rand.NewPCG(7, uint64(rounds)))
	held := map[string][]byte{}
	for i := range 20 {
		e := editors[i%len(editors)]
		name := fmt.Sprintf("%02d%s", i, e.name)
		held[name] = e.first(rng)
		writeBytes(t, filepath.Join(site, name), held[name])
	}
	publish := func() outcome {
		return mustDo(t, "publish", site, "--base-url", srv.URL+"/", "--state", state, "--patches")
	}
	publish()
	mustDo(t, "sync", srv.URL+"/", mirror)
	var sums patchSums
	for range rounds {
		for name, before := range held {
			writeBytes(t, filepath.Join(old, name), before)
			for bytes.Equal(held[name], before) {
				held[name] = editorOf(name).edit(rng, before)
			}
			writeBytes(t, filepath.Join(site, name), held[name])
			sums.edits++
			sums.whole += int64(len(held[name]))
		}
		publish()
		sums.checkPatches(t, site, old, srv.URL+"/")
		o := mustDo(t, "sync", srv.URL+"/", mirror)
		if p := o.summary.Patches; p != nil {
			sums.used, sums.failed = sums.used+*p.Used, sums.failed+*p.Failed
		}
		sums.sent += *o.summary.Bytes
		for name, want := range held {
			if got, err := os.ReadFile(filepath.Join(mirror, name)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: the mirror has other bytes, %v", name, err)
			}
		}
	}
	sums.report(t)
}

// patchSums are the sums of TestPatchesOfRandomEdits.
type patchSums struct {
	edits, made, used, failed int64
	kinds                     map[patch.Kind]int64
	whole, sent               int64
	seen                      map[string]bool
}

// checkPatches applies the patches that are new in the Change List by other programs.
func (s *patchSums) checkPatches(t *testing.T, site, old, base string) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(site, "resourcesync", "changes", "*.xml"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("Change Lists: %q, %v", lists, err)
	}
	r, err := os.Open(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if s.seen == nil {
		s.seen, s.kinds = map[string]bool{}, map[patch.Kind]int64{}
	}
	for en, err := range resourcesync.NewDecoder(r).Entries() {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range en.Links {
			if l.Rel != resourcesync.RelPatch || s.seen[l.Href] {
				continue
			}
			s.seen[l.Href] = true
			file := filepath.Join(site, strings.TrimPrefix(l.Href, base))
			kind, _ := patch.KindOf(l.Type)
			got := applyByOthers(t, kind, filepath.Join(old, strings.TrimPrefix(en.Loc, base)), file)
			h := resourcesync.NewHasher(resourcesync.SHA256)
			_, _ = h.Write(got)
			if h.Digests().String() != en.Digests.String() || int64(len(got)) != en.Length.Int64() {
				t.Errorf("%s: %d bytes with %s, listed are %d with %s", l.Href, len(got), h.Digests(), en.Length.Int64(), en.Digests)
			}
			s.made++
			s.kinds[kind]++
		}
	}
}

// A file of more than 16 MiB has a patch of VCDIFF that xdelta3 applies, and a mirror takes it.
func TestPatchesOfALongFile(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: two versions of 17 MiB take a while; run without -short")
	}
	if _, err := exec.LookPath("xdelta3"); err != nil {
		t.Skip("SKIPPED: xdelta3 is not installed")
	}
	dir := t.TempDir()
	site, mirror, state, old := filepath.Join(dir, "site"), filepath.Join(dir, "mirror"), filepath.Join(dir, "state"), filepath.Join(dir, "old")
	for _, d := range []string{site, old} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	srv := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(srv.Close)
	before := make([]byte, patch.MaxBytes+1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(before)
	after := append([]byte("a few bytes before it "), before[:len(before)/2]...)
	after = append(append(after, "and in it"...), before[len(before)/2+1000:]...)
	for _, version := range [][]byte{before, after} {
		writeBytes(t, filepath.Join(site, "data.bin"), version)
		mustDo(t, "publish", site, "--base-url", srv.URL+"/", "--state", state, "--patches")
		o := mustDo(t, "sync", srv.URL+"/", mirror)
		if got, err := os.ReadFile(filepath.Join(mirror, "data.bin")); err != nil || !bytes.Equal(got, version) {
			t.Fatalf("the mirror has other bytes, %v", err)
		}
		if bytes.Equal(version, after) && (o.summary.Patches == nil || *o.summary.Patches.Used != 1 || *o.summary.Bytes > 10_000) {
			t.Errorf("the mirror did not use the patch: %+v", o.summary)
		}
	}
	writeBytes(t, filepath.Join(old, "data.bin"), before)
	var sums patchSums
	if sums.checkPatches(t, site, old, srv.URL+"/"); sums.kinds[patch.VCDIFF] != 1 {
		t.Errorf("expected a patch of VCDIFF, got %v", sums.kinds)
	}
}

// applyByOthers applies a patch by python3-jsonpatch, zstd or xdelta3.
func applyByOthers(t *testing.T, kind patch.Kind, before, made string) []byte {
	t.Helper()
	after := filepath.Join(t.TempDir(), "after")
	cmd := exec.Command("zstd", "-d", "-q", "-D", before, made, "-o", after)
	switch kind {
	case patch.VCDIFF:
		cmd = exec.Command("xdelta3", "-d", "-s", before, made, after)
	case patch.JSON:
		cmd = exec.Command("python3", "-c", jsonPatchProgram, before, made, after)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", made, err, text)
	}
	got, err := os.ReadFile(after)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (s *patchSums) report(t *testing.T) {
	t.Helper()
	t.Logf("%d edits: %d patches published (%d JSON Patch, %d Zstandard), all made the listed bytes by another program; the mirror used %d (%.1f %%), %d failed",
		s.edits, s.made, s.kinds[patch.JSON], s.kinds[patch.Zstd], s.used, 100*float64(s.used)/float64(s.made), s.failed)
	t.Logf("%d bytes instead of %d were transferred: %.1f %% saved", s.sent, s.whole, 100-100*float64(s.sent)/float64(s.whole))
	if s.made < s.edits/2 || s.used*10 < s.made*9 || s.failed > 0 {
		t.Errorf("expected patches for at least half of the edits, and nine of ten used")
	}
	if s.kinds[patch.JSON] == 0 || s.kinds[patch.Zstd] == 0 {
		t.Errorf("expected both kinds, got %v", s.kinds)
	}
}

func writeBytes(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func editorOf(name string) *editor {
	for i := range editors {
		if strings.HasSuffix(name, editors[i].name) {
			return &editors[i]
		}
	}
	panic("no editor")
}

var editors = []editor{
	{"compact.json", func(r *rand.Rand) []byte { return compact(someItems(r)) }, func(r *rand.Rand, b []byte) []byte { return compact(editItems(r, b)) }},
	{"indented.json", func(r *rand.Rand) []byte { return indented(someItems(r)) }, func(r *rand.Rand, b []byte) []byte { return indented(editItems(r, b)) }},
	{"page.xml", xmlPage, editLines},
	{"text.txt", textPage, editLines},
	{"data.bin", someBytes, editBytes},
}

// item is an element of the random JSON documents.
type item struct {
	ID    int               `json:"id"`
	Title string            `json:"title"`
	Tags  []string          `json:"tags"`
	More  map[string]string `json:"more,omitempty"`
}

func someWords(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString([]string{"vase", "Krug", "été", "東京", "<b>", "&", "a/b", "c~d", "blue", "of 1890"}[r.IntN(10)])
	}
	return b.String()
}

func someItem(r *rand.Rand) item {
	i := item{ID: r.IntN(1 << 20), Title: someWords(r, 1+r.IntN(5)), Tags: []string{}}
	for range r.IntN(4) {
		i.Tags = append(i.Tags, someWords(r, 1))
	}
	if r.IntN(2) == 0 {
		i.More = map[string]string{someWords(r, 1): someWords(r, 2)}
	}
	return i
}

func someItems(r *rand.Rand) []item {
	all := make([]item, 20+r.IntN(200))
	for i := range all {
		all[i] = someItem(r)
	}
	return all
}

// editItems changes, adds or removes some elements.
func editItems(r *rand.Rand, before []byte) []item {
	var all []item
	if err := json.Unmarshal(before, &all); err != nil {
		panic(err)
	}
	for range 1 + r.IntN(3) {
		at := r.IntN(len(all))
		switch r.IntN(8) {
		case 0:
			all = append(all, someItem(r))
		case 1:
			if len(all) > 2 {
				all = append(all[:at], all[at+1:]...)
			}
		default:
			all[at].Title = someWords(r, 1+r.IntN(5))
		}
	}
	return all
}

func compact(all []item) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func indented(all []item) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, compact(all), "", "  "); err != nil {
		panic(err)
	}
	return append(b.Bytes(), '\n')
}

func xmlPage(r *rand.Rand) []byte {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\"?>\n<records>\n")
	for i := range 20 + r.IntN(300) {
		fmt.Fprintf(&b, "  <record id=\"%d\"><title>%d of %x</title></record>\n", i, r.IntN(1000), r.Uint64())
	}
	b.WriteString("</records>\n")
	return []byte(b.String())
}

func textPage(r *rand.Rand) []byte {
	var b strings.Builder
	for range 20 + r.IntN(400) {
		b.WriteString(someWords(r, 8) + "\n")
	}
	return []byte(b.String())
}

// editLines replaces, adds or removes some lines.
func editLines(r *rand.Rand, before []byte) []byte {
	lines := strings.SplitAfter(string(before), "\n")
	for range 1 + r.IntN(3) {
		at := 2 + r.IntN(len(lines)-4)
		switch r.IntN(3) {
		case 0:
			lines[at] = fmt.Sprintf("<!-- %x -->\n", r.Uint64())
		case 1:
			lines = append(lines[:at], append([]string{fmt.Sprintf("  <note>%x</note>\n", r.Uint64())}, lines[at:]...)...)
		default:
			if len(lines) > 20 {
				lines = append(lines[:at], lines[at+1:]...)
			}
		}
	}
	return []byte(strings.Join(lines, ""))
}

func someBytes(r *rand.Rand) []byte {
	b := make([]byte, 1_000+r.IntN(200_000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// editBytes changes, inserts, removes or moves some bytes.
func editBytes(r *rand.Rand, before []byte) []byte {
	b := bytes.Clone(before)
	for range 1 + r.IntN(4) {
		at, n := r.IntN(len(b)), 1+r.IntN(200)
		end := min(at+n, len(b))
		switch r.IntN(4) {
		case 0:
			b[at]++
		case 1:
			b = append(b[:at], append(someBytes(r)[:n], b[at:]...)...)
		case 2:
			if len(b) > 1_000 {
				b = append(b[:at], b[end:]...)
			}
		default:
			moved := bytes.Clone(b[at:end])
			b = append(append(b[:at], b[end:]...), moved...)
		}
	}
	return b
}
