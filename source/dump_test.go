package source

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
	"instep/resourcesync"
)

// documentAt reads a document of ours.
func documentAt(t *testing.T, b blob.Bucket, key string) (resourcesync.Header, []resourcesync.Entry) {
	t.Helper()
	text, err := blob.ReadAll(t.Context(), b, key, 100<<20)
	if err != nil {
		t.Fatal(err)
	}
	d := resourcesync.NewDecoder(bytes.NewReader(text), resourcesync.WithTolerance(resourcesync.Strict))
	var entries []resourcesync.Entry
	for en, err := range d.Entries() {
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		entries = append(entries, en)
	}
	h, err := d.Header()
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return h, entries
}

// packageAt is a package that was checked against all that is said of it.
type packageAt struct {
	entry    resourcesync.Entry // of the dump
	header   resourcesync.Header
	entries  []resourcesync.Entry // of the manifest
	contents []string             // of the bitstream of each entry, "" of a deletion
}

// checkPackage holds the package that an entry of a dump names against the entry, the
// copy of its manifest and that manifest.
func checkPackage(t *testing.T, b blob.Bucket, en resourcesync.Entry) packageAt {
	t.Helper()
	key := strings.TrimPrefix(en.Loc, testBase)
	text, err := blob.ReadAll(t.Context(), b, key, 100<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resourcesync.NewVerifyReader(bytes.NewReader(text), en.Length.Int64(), en.Digests)); err != nil {
		t.Errorf("%s is not what the dump says: %v", key, err)
	}
	if len(en.Digests) == 0 || !en.Length.Known() || en.Type != "application/zip" {
		t.Errorf("%s: the dump does not tell hash, length and type: %+v", key, en)
	}
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	members := map[string]string{}
	for _, f := range z.File {
		members[f.Name] = unzipped(t, f)
	}
	manifest := strings.TrimPrefix(en.Link(resourcesync.RelContents), testBase)
	lintDocument(t, b, manifest)
	p := packageAt{entry: en}
	p.header, p.entries = documentAt(t, b, manifest)
	if z.File[0].Name != "manifest.xml" || members["manifest.xml"] != read(t, b, manifest)+"\n" {
		t.Errorf("%s: the first member is not the manifest that the dump links, but %q", key, z.File[0].Name)
	}
	if got, want := p.header.Link("up"), testBase+"resourcesync/capabilitylist.xml"; got != want {
		t.Errorf("%s: up: got %q, want %q", manifest, got, want)
	}
	times := func(m resourcesync.Metadata) [4]resourcesync.Datetime {
		return [4]resourcesync.Datetime{m.At, m.Completed, m.From, m.Until}
	}
	if diff := cmp.Diff(times(en.Metadata), times(p.header.Metadata), cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a == b })); diff != "" {
		t.Errorf("%s: times (-dump +manifest):\n%s", manifest, diff)
	}
	delete(members, "manifest.xml")
	for _, m := range p.entries {
		content, there := members[strings.TrimPrefix(m.Path, "/")]
		delete(members, strings.TrimPrefix(m.Path, "/"))
		if there == (m.Change == resourcesync.Deleted) || there && m.Digests.String() != digestsOf(content).String() {
			t.Errorf("%s: %q has not the bytes of %q: in the package %v", key, m.Path, m.Loc, there)
		}
		p.contents = append(p.contents, content)
	}
	if len(members) != 0 {
		t.Errorf("%s: members that the manifest does not list: %q", key, members)
	}
	return p
}

func unzipped(t *testing.T, f *zip.File) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// packagesIn returns the packages of a dump, or of all parts of its index.
func packagesIn(t *testing.T, b blob.Bucket, key string) []packageAt {
	t.Helper()
	lintDocument(t, b, key)
	h, entries := documentAt(t, b, key)
	var all []packageAt
	for _, en := range entries {
		if h.Root == resourcesync.SitemapIndex {
			all = append(all, packagesIn(t, b, strings.TrimPrefix(en.Loc, testBase))...)
		} else {
			all = append(all, checkPackage(t, b, en))
		}
	}
	return all
}

// counts are the numbers of entries of packages.
func counts(packages []packageAt) (n []int) {
	for _, p := range packages {
		n = append(n, len(p.entries))
	}
	return n
}

func newDumpSite(t *testing.T) *site {
	s := newSite(t)
	s.dumps = true
	return s
}

func TestResourceDumpHoldsTheSet(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 10, 31} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newDumpSite(t)
			s.fill(n)
			u := s.first()
			pub := s.publish(u)
			uri := pub.Offer(resourcesync.CapabilityResourceDump)
			packages := packagesIn(t, s.bucket, strings.TrimPrefix(uri, testBase))
			got := map[string]string{}
			for _, p := range packages {
				for i, en := range p.entries {
					got[en.Loc] = p.contents[i]
				}
				if at := p.header.At.Time(); !at.Equal(u.Dump.At) || !p.header.Completed.Time().Equal(u.Dump.Completed) {
					t.Errorf("at and completed: got %s and %s, want those of the dump", p.header.At, p.header.Completed)
				}
			}
			if diff := cmp.Diff(s.truth, got); diff != "" {
				t.Errorf("the dump (-want +got):\n%s", diff)
			}
			if want := (n + 2) / 3; len(packages) != want {
				t.Errorf("got %d packages, want %d of at most 3 entries", len(packages), want)
			}
			if !pub.DumpAt.Equal(u.Dump.At) || pub.DumpThrough != u.Dump.Through {
				t.Errorf("got a dump at %s through %d, want %s and %d", pub.DumpAt, pub.DumpThrough, u.Dump.At, u.Dump.Through)
			}
		})
	}
}

// TestItemOfADumpNamesAllOfIt: what goes with a generation goes away with it.
func TestItemOfADumpNamesAllOfIt(t *testing.T) {
	s := newDumpSite(t)
	s.fill(10)
	pub := s.publish(s.first())
	at := slices.IndexFunc(pub.Items, func(it Item) bool { return it.Kind == ItemResourceDump })
	if at < 0 {
		t.Fatalf("got no item of a Resource Dump: %+v", pub.Items)
	}
	it := pub.Items[at]
	var want []string
	var bytes int64
	for info, err := range s.bucket.List(t.Context(), "resourcesync/dumps/") {
		if err != nil {
			t.Fatal(err)
		}
		want, bytes = append(want, info.Key), bytes+info.Size
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(it.Keys))); diff != "" {
		t.Errorf("Keys (-want +got):\n%s", diff)
	}
	if it.Entries != 10 || it.Bytes != bytes {
		t.Errorf("got %d entries and %d bytes, want 10 and %d", it.Entries, it.Bytes, bytes)
	}
}

// sized are bitstreams of these sizes; a negative one is a deletion.
func sized(sizes ...int) iter.Seq2[Bitstream, error] {
	return func(yield func(Bitstream, error) bool) {
		for i, n := range sizes {
			b := Bitstream{Entry: resourcesync.Entry{Loc: fmt.Sprintf("%sitem/%d.txt", testBase, i)}}
			if n >= 0 {
				content := strings.Repeat("x", n)
				b.Open, b.Digests, b.Length, b.Type = opens(content), digestsOf(content), resourcesync.Bytes(int64(n)), "text/plain"
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

func TestPackagesAreSplitBySize(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  []int // entries of each package
	}{
		{[]int{40, 40, 20, 1}, []int{3, 1}},
		{[]int{40, 61}, []int{1, 1}},
		{[]int{500}, []int{1}},
		{[]int{10, 500, 10, 10}, []int{1, 1, 2}},
		{[]int{0, 0, 500, 0, 0}, []int{3, 2}},
		{[]int{100, 0, 0, 100}, []int{3, 1}},
	} {
		s := newDumpSite(t)
		s.fill(1)
		s.p.MaxEntries = 0
		u := s.first()
		u.Policy.PackageBytes = 100
		u.Dump.Bitstreams = sized(c.sizes...)
		pub := s.publish(u)
		key := strings.TrimPrefix(pub.Offer(resourcesync.CapabilityResourceDump), testBase)
		if diff := cmp.Diff(c.want, counts(packagesIn(t, s.bucket, key))); diff != "" {
			t.Errorf("entries of the packages of %d (-want +got):\n%s", c.sizes, diff)
		}
	}
}

// TestManifestsStayWithinTheirBound: a package ends before its manifest has more than
// 50,000,000 bytes.
func TestManifestsStayWithinTheirBound(t *testing.T) {
	s := newDumpSite(t)
	s.fill(1)
	s.p.MaxEntries = 0
	u := s.first()
	const n = 26_000
	long := strings.Repeat("long/", 400)
	u.Dump.Bitstreams = func(yield func(Bitstream, error) bool) {
		for i := range n {
			b := Bitstream{Open: opens("")}
			b.Loc, b.Type, b.Length = fmt.Sprintf("%s%s%d", testBase, long, i), "text/plain", resourcesync.Bytes(0)
			if !yield(b, nil) {
				return
			}
		}
	}
	pub := s.publish(u)
	_, entries := documentAt(t, s.bucket, strings.TrimPrefix(pub.Offer(resourcesync.CapabilityResourceDump), testBase))
	if len(entries) != 2 {
		t.Fatalf("got %d packages, want 2", len(entries))
	}
	sum := 0
	for _, en := range entries {
		h, manifest := documentAt(t, s.bucket, strings.TrimPrefix(en.Link(resourcesync.RelContents), testBase))
		if h.Capability != resourcesync.CapabilityResourceDumpManifest {
			t.Errorf("got a %q", h.Capability)
		}
		sum += len(manifest)
	}
	if sum != n {
		t.Errorf("got %d entries in all, want %d", sum, n)
	}
}

// TestChangeDumpHoldsEachState: every state of every publication, in order, in packages
// whose times follow each other.
func TestChangeDumpHoldsEachState(t *testing.T) {
	s := newDumpSite(t)
	s.fill(2)
	s.publish(s.first())
	s.set("item/0.txt", "second")
	s.set("item/0.txt", "third")
	s.set("item/1.txt", "")
	s.set("item/2.txt", "new")
	s.publish(s.more(false))
	s.set("item/0.txt", "fourth")
	pub := s.publish(s.more(false))

	key := strings.TrimPrefix(pub.Offer(resourcesync.CapabilityChangeDump), testBase)
	packages := packagesIn(t, s.bucket, key)
	if diff := cmp.Diff([]int{3, 1, 1}, counts(packages)); diff != "" {
		t.Fatalf("entries of packages (-want +got):\n%s", diff)
	}
	var got []string
	for _, p := range packages {
		for i, en := range p.entries {
			got = append(got, fmt.Sprintf("%s %s %s", en.Change, strings.TrimPrefix(en.Loc, testBase), p.contents[i]))
		}
	}
	want := []string{
		"updated item/0.txt second", "updated item/0.txt third", "deleted item/1.txt ", "created item/2.txt new", "updated item/0.txt fourth",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if a, b := packages[0], packages[1]; a.header.Until != b.header.From {
		t.Errorf("packages of one publication: got until %s and then from %s, want the same", a.header.Until, b.header.From)
	}
	h, _ := documentAt(t, s.bucket, key)
	if first := packages[0].header.From; first != h.From {
		t.Errorf("from of the first package: got %s, want that of the dump, %s", first, h.From)
	}
	for _, p := range packages {
		last := p.entries[len(p.entries)-1].Datetime
		if p.header.Until.Before(last) {
			t.Errorf("a package until %s has a change of %s", p.header.Until, last)
		}
	}
}

func TestPackagesOfSeveralWindowsHaveNamesOfTheirOwn(t *testing.T) {
	s := newDumpSite(t)
	s.fill(1)
	s.publish(s.first())
	s.set("item/0.txt", "a")
	s.set("item/0.txt", "b")
	at := s.now.Add(time.Microsecond)
	before := len(s.changes)
	s.set("item/0.txt", "c")
	pub := s.publish(s.rotate(before, at, false))
	h, index := documentAt(t, s.bucket, strings.TrimPrefix(pub.Offer(resourcesync.CapabilityChangeDump), testBase))
	if h.Root != resourcesync.SitemapIndex || len(index) != 2 {
		t.Fatalf("got %d Change Dumps, want an index of 2", len(index))
	}
	var got []int
	for _, en := range index {
		packages := packagesIn(t, s.bucket, strings.TrimPrefix(en.Loc, testBase))
		got = append(got, counts(packages)...)
		if until := packages[0].header.Until; !en.Until.IsZero() && until != en.Until {
			t.Errorf("the last package of a closed Change Dump: got until %s, want %s", until, en.Until)
		}
	}
	if diff := cmp.Diff([]int{2, 1}, got); diff != "" {
		t.Errorf("entries of packages (-want +got):\n%s", diff)
	}
}

// TestPackageBeginsNoEarlierThanItsDump: what is fresh may be so since an earlier window.
func TestPackageBeginsNoEarlierThanItsDump(t *testing.T) {
	s := newDumpSite(t)
	s.fill(1)
	s.publish(s.first())
	s.set("item/0.txt", "a")
	before, at := len(s.changes), s.now.Add(time.Microsecond)
	s.set("item/0.txt", "b")
	u := s.rotate(before, at, false)
	u.Changes[1].FreshFrom = u.Changes[0].FreshFrom
	pub := s.publish(u)
	_, index := documentAt(t, s.bucket, strings.TrimPrefix(pub.Offer(resourcesync.CapabilityChangeDump), testBase))
	for _, en := range index {
		packages := packagesIn(t, s.bucket, strings.TrimPrefix(en.Loc, testBase))
		if from := packages[0].header.From; from.Before(en.From) {
			t.Errorf("a package from %s in a Change Dump from %s", from, en.From)
		}
	}
}

// TestBytesThatAreGoneStopAPublication: it names the resource, and leaves nothing.
func TestBytesThatAreGoneStopAPublication(t *testing.T) {
	other := errors.New("read error")
	for name, c := range map[string]struct {
		open func(context.Context) (io.ReadCloser, error)
		gone bool
	}{
		"gone":     {func(context.Context) (io.ReadCloser, error) { return nil, fmt.Errorf("stat: %w", ErrGone) }, true},
		"replaced": {opens("replaced!"), true},
		"longer":   {opens("content 1, and more"), true},
		"failing":  {func(context.Context) (io.ReadCloser, error) { return nil, other }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newDumpSite(t)
			s.fill(4)
			u := s.first()
			uri := testBase + "item/1.txt"
			whole := u.Dump.Bitstreams
			u.Dump.Bitstreams = func(yield func(Bitstream, error) bool) {
				for b, err := range whole {
					if b.Loc == uri {
						b.Open = c.open
					}
					if !yield(b, err) {
						return
					}
				}
			}
			_, err := s.p.Publish(t.Context(), u)
			gone, ok := errors.AsType[*GoneError](err)
			if ok != c.gone || ok && gone.URI != uri || err == nil || !strings.Contains(err.Error(), uri) {
				t.Errorf("got %v; is it a GoneError of the resource? %v, want %v", err, ok, c.gone)
			}
			if keys := append(keysOf(t, s.bucket), keysOf(t, s.staging)...); len(keys) != 0 {
				t.Errorf("it left %q", keys)
			}
			u.Dump.Bitstreams = whole
			s.publish(u)
		})
	}
}

func TestPreviewOfADumpOpensNothing(t *testing.T) {
	s := newDumpSite(t)
	s.fill(4)
	u := s.first()
	whole := u.Dump.Bitstreams
	u.Dump.Bitstreams = func(yield func(Bitstream, error) bool) {
		for b, err := range whole {
			b.Open = func(context.Context) (io.ReadCloser, error) {
				t.Error("a preview opened bytes")
				return nil, ErrGone
			}
			if !yield(b, err) {
				return
			}
		}
	}
	would, err := s.p.Preview(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	if keys := append(keysOf(t, s.bucket), keysOf(t, s.staging)...); len(keys) != 0 {
		t.Errorf("a preview left %q", keys)
	}
	u.Dump.Bitstreams = whole
	did := s.publish(u)
	if diff := cmp.Diff(documentKeys(did), documentKeys(would)); diff != "" {
		t.Errorf("documents (-published +previewed):\n%s", diff)
	}
	for _, d := range would.Documents {
		if strings.HasSuffix(d.Key, ".zip") && d.Length == 0 {
			t.Errorf("%s: got no length, want that of its members", d.Key)
		}
	}
}

func documentKeys(p Publication) (keys []string) {
	for _, d := range p.Documents {
		keys = append(keys, d.Key)
	}
	slices.Sort(keys)
	return keys
}

func TestCancelledDumpLeavesNothing(t *testing.T) {
	s := newDumpSite(t)
	s.fill(10)
	u := s.first()
	ctx, cancel := context.WithCancel(t.Context())
	whole := u.Dump.Bitstreams
	u.Dump.Bitstreams = func(yield func(Bitstream, error) bool) {
		n := 0
		for b, err := range whole {
			if n++; n == 7 {
				cancel()
			}
			if !yield(b, err) {
				return
			}
		}
	}
	if _, err := s.p.Publish(ctx, u); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if keys := append(keysOf(t, s.bucket), keysOf(t, s.staging)...); len(keys) != 0 {
		t.Errorf("it left %q", keys)
	}
}

func TestErrorOfTheBitstreamsIsTold(t *testing.T) {
	s := newDumpSite(t)
	s.fill(1)
	u := s.first()
	bad := errors.New("the catalog can't be read")
	u.Dump.Bitstreams = func(yield func(Bitstream, error) bool) { yield(Bitstream{}, bad) }
	if _, err := s.p.Publish(t.Context(), u); !errors.Is(err, bad) {
		t.Errorf("got %v, want %v", err, bad)
	}
}

// TestManyBitstreamsNeedLittleMemory packs 150,000 bitstreams, or a million if
// INSTEP_LONG is set, and looks at the heap while it continues: the entries of one
// package, of 50,000, are held.
func TestManyBitstreamsNeedLittleMemory(t *testing.T) {
	n, limit := 150_000, uint64(48<<20)
	if os.Getenv("INSTEP_LONG") != "" {
		n = 1_000_000
	}
	s := newDumpSite(t)
	s.bucket, s.staging = openDir(t), openDir(t)
	s.reopen()
	s.p.MaxEntries = 0
	s.fill(1)
	const content = "the same for all"
	digests, open := digestsOf(content), opens(content)
	var peak uint64
	var m runtime.MemStats
	u := s.first()
	u.Dump.Bitstreams = func(yield func(Bitstream, error) bool) {
		for i := range n {
			if i%10_000 == 9_999 {
				runtime.GC() // what is in use, not what waits to be collected
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
			b := Bitstream{Open: open, Entry: resourcesync.Entry{Loc: fmt.Sprintf("%sroom/%d/item.txt", testBase, i), LastMod: resourcesync.DatetimeOf(testStart)}}
			b.Digests, b.Length, b.Type = digests, resourcesync.Bytes(int64(len(content))), "text/plain"
			if !yield(b, nil) {
				return
			}
		}
	}
	pub := s.publish(u)
	_, entries := documentAt(t, s.bucket, strings.TrimPrefix(pub.Offer(resourcesync.CapabilityResourceDump), testBase))
	if want := n / resourcesync.MaxEntries; len(entries) != want {
		t.Errorf("got %d packages, want %d", len(entries), want)
	}
	if peak > limit {
		t.Errorf("the heap grew to %d MiB, want at most %d", peak>>20, limit>>20)
	}
	t.Logf("heap at most %d MiB", peak>>20)
}
