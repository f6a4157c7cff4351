package destination_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"instep/destination"
	"instep/fetch"
	"instep/harvest"
	"instep/mirror"
)

// packages serves the package /d/1.zip by parts and counts what it sends of it.
type packages struct {
	s    *aSource
	sent atomic.Int64

	mu       sync.Mutex // guards the rest
	requests []string   // their Range
	tag      string
	pause    int64  // after so many bytes stop is called, once, and the rest waits for the end of the request
	stop     func() // nil: nothing stops it
}

func (s *aSource) servePackage(tag string) *packages {
	p := &packages{s: s, tag: tag}
	s.answer("/d/1.zip", p.ServeHTTP)
	return p
}

func (p *packages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.Header.Get("Range"))
	tag := p.tag
	p.mu.Unlock()
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	http.ServeContent(&pausing{w, r, p}, r, "", time.Time{}, bytes.NewReader(p.s.served("/d/1.zip")))
}

// take returns what was asked for and how many bytes were sent, and forgets it.
func (p *packages) take() (requests []string, sent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, p.requests = p.requests, nil
	return requests, p.sent.Swap(0)
}

type pausing struct {
	http.ResponseWriter
	r *http.Request
	p *packages
}

func (w *pausing) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	sent := w.p.sent.Add(int64(n))
	w.p.mu.Lock()
	stop := w.p.stop
	if stop != nil && sent >= w.p.pause {
		w.p.stop = nil
	} else {
		stop = nil
	}
	w.p.mu.Unlock()
	if stop != nil {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		stop()
		<-w.r.Context().Done()
	}
	return n, err
}

// heavy is a Source of n resources of so many bytes in the package /d/1.zip.
func heavy(t *testing.T, n, size int) (*aSource, []string) {
	s, paths := onePackage(t, n)
	for i, p := range paths {
		s.put(p, noise(uint64(i), size))
	}
	s.list(0, paths...)
	s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
	return s, paths
}

// interrupted runs a synchronisation that ends when stop is called or so many resources
// are there.
func (m *aMirror) interrupted(begin func(stop func()), after int64) error {
	return m.with(func(ctx context.Context, d *destination.Destination, mm *mirror.Mirror) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		begin(cancel)
		var done atomic.Int64
		observe := d.Observe
		d.Observe = func(e destination.Event) {
			observe(e)
			if e.Kind == destination.EventDone && done.Add(1) == after {
				cancel()
			}
		}
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		if err := mm.Bind(ctx, plan.Source, plan.Origin); err != nil {
			return err
		}
		_, err = d.Apply(ctx, plan)
		return err
	})
}

// TestCat_DMP_06: a run that ends while a package is transferred, or unpacked, is
// followed by one that brings what is not here yet, and little more of the package; one
// that was replaced meanwhile begins anew. Where the package has to be whole before
// anything is taken out of it, its beginning is kept.
func TestCat_DMP_06(t *testing.T) {
	const n, size = 40, 1 << 20
	for _, tt := range []struct {
		name  string
		tag   string
		bare  bool  // nothing but the package has a digest
		pause int64 // bytes of the package after which the first run ends
		after int64 // resources after which it ends
		then  func(*aSource, []string)
		kept  bool // the second run goes on with what is kept of the package
	}{
		{name: "in the transfer", tag: `"1"`, pause: 30 << 20},
		{name: "at the end of the transfer", tag: `"1"`, pause: n * size},
		{name: "without an ETag", pause: 17 << 20},
		{name: "replaced by a package of the same length", tag: `"1"`, pause: 17 << 20, then: replaced},
		{name: "while it is unpacked", tag: `"1"`, after: 5},
		{name: "in the transfer of members without digests", tag: `"1"`, bare: true, pause: 30 << 20, kept: true},
		{name: "at the end of the transfer of members without digests", tag: `"1"`, bare: true, pause: n * size, kept: true},
		{name: "of members without digests, without an ETag", bare: true, pause: 17 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := heavy(t, n, size)
			if tt.bare {
				s.withoutDigests()
			}
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			served := s.servePackage(tt.tag)
			m := newMirror(t, s)
			err := m.interrupted(func(stop func()) {
				served.mu.Lock()
				defer served.mu.Unlock()
				if served.pause = tt.pause; tt.pause > 0 {
					served.stop = stop
				}
			}, tt.after)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("the first run: got %v, want that it was interrupted", err)
			}
			if _, sent := served.take(); sent < tt.pause {
				t.Fatalf("sent in the first run: got %d, want at least %d", sent, tt.pause)
			}
			if tt.then != nil {
				tt.then(s, paths)
				served.tag = `"2"`
			}
			most := m.lacks(paths) + 1<<20
			rep, err := m.sync()
			if err != nil || rep.Failed > 0 {
				t.Fatalf("the second run: got %+v, %v", rep, err)
			}
			requests, sent := served.take()
			rest := restOf(requests)
			if (rest > 0) != tt.kept {
				t.Errorf("requests of the second run: got %q, want the rest of the package: %v", requests, tt.kept)
			}
			if sent > most-rest {
				t.Errorf("sent of the package in the second run: got %d by %q, want at most %d", sent, requests, most-rest)
			}
			m.wantFiles(paths...)
			m.wantNoParts()
		})
	}
}

// withoutDigests takes digests and lengths out of the manifest and its copy. Nothing else
// tells of the resources.
func (s *aSource) withoutDigests() {
	s.put("/d/1.xml", bare(s.served("/d/1.xml")))
	all := s.members("/d/1.zip")
	all[0].body = s.served("/d/1.xml")
	s.repack(zipOf(s.t, all))
	s.offers("resourcedump", "/dump.xml")
}

// lacks is how many bytes of what is served at these paths the mirror does not hold.
func (m *aMirror) lacks(paths []string) (n int64) {
	held := m.files()
	for _, p := range paths {
		if b := m.src.served(p); held[p] != string(b) {
			n += int64(len(b))
		}
	}
	return n
}

// restOf is from where on one of these requests asks for all that follows; 0 if none does.
func restOf(requests []string) (rest int64) {
	for _, r := range requests {
		if before, isRest := strings.CutSuffix(r, "-"); isRest {
			_, _ = fmt.Sscanf(before, "bytes=%d", &rest)
		}
	}
	return rest
}

// replaced changes all resources, and the package with them.
func replaced(s *aSource, paths []string) {
	for i, p := range paths {
		s.put(p, noise(uint64(1000+i), len(s.served(p))))
	}
	s.list(0, paths...)
	s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
}

// TestCat_DMP_06_anywhere: wherever runs end, the next ones get everything, and of the
// package never more than once more than there were interruptions.
func TestCat_DMP_06_anywhere(t *testing.T) {
	const size = 256 << 10
	luck := rand.New(rand.NewPCG(6, 6))
	for round := range 6 {
		n := int64(60 + round%2*80) // a large one too
		s, paths := heavy(t, int(n), size)
		served := s.servePackage(`"1"`)
		m := newMirror(t, s)
		var total int64
		interruptions := 0
		for range 4 {
			err := m.interrupted(func(stop func()) {
				served.mu.Lock()
				defer served.mu.Unlock()
				served.pause, served.stop = luck.Int64N(n*size), stop
			}, 1+luck.Int64N(n))
			_, sent := served.take()
			total += sent
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("round %d: %v", round, err)
			}
			interruptions++
		}
		served.mu.Lock()
		served.stop = nil
		served.mu.Unlock()
		if rep, err := m.sync(); err != nil || rep.Failed > 0 {
			t.Fatalf("round %d: got %+v, %v", round, rep, err)
		}
		_, sent := served.take()
		if most := int64(interruptions+1) * (n*size + 1<<20); total+sent > most {
			t.Errorf("round %d: sent of the package: got %d, want at most %d", round, total+sent, most)
		}
		m.wantFiles(paths...)
	}
}

// fewOfMany is a Source with a large package of which the mirror lacks the resources
// 10 to 14 and 70 to 74.
func fewOfMany(t *testing.T) (s *aSource, paths []string, m *aMirror) {
	s = newSource(t)
	paths = s.fill(80)
	for i := range paths {
		if !lacking(i) {
			s.put(paths[i], noise(uint64(i), 100_000))
		}
	}
	var held []string
	for i := range paths {
		if !lacking(i) {
			held = append(held, paths[i])
		}
	}
	s.list(0, held...)
	s.offers("resourcelist", "/list.xml")
	m = newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 70, 0, 0)
	s.list(1, paths...)
	s.dump(1, aPackage{path: "/d/1", entries: s.entries(paths...)})
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	return s, paths, m
}

func lacking(i int) bool { return i%60 >= 10 && i%60 < 15 }

// Parts of a package are taken only of one version, or if a digest proves each member.
func TestPartsOfPackages(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source func(*aSource, *packages)
		want   string
		note   string
	}{
		{"with a strong ETag", func(*aSource, *packages) {}, "range=10", ""},
		{"with a weak ETag", func(_ *aSource, p *packages) { p.tag = `W/"1"` }, "range=10", ""},
		{"without an ETag", func(_ *aSource, p *packages) { p.tag = "" }, "range=10", ""},
		{"of another version since the directory was read", func(s *aSource, p *packages) {
			var asked atomic.Int64
			s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 2 {
					p.mu.Lock()
					p.tag = `"2"`
					p.mu.Unlock()
				}
				p.ServeHTTP(w, r)
			})
		}, "get=10", "replaced"},
		{"that was cut since the directory was read", func(s *aSource, p *packages) {
			p.tag = ""
			var asked atomic.Int64
			s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 2 {
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
					return
				}
				p.ServeHTTP(w, r)
			})
		}, "get=10", "416"},
		{"by a server that sends other parts", func(s *aSource, p *packages) {
			s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Range", "bytes 0-9/7400000")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(make([]byte, 10))
			})
		}, "get=10", "because the package cannot be used"},
		{"of shifted bytes", func(s *aSource, p *packages) {
			whole := s.served("/d/1.zip")
			var asked atomic.Int64
			s.answer("/d/1.zip", func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 2 {
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(append(slices.Clone(whole[1:]), 0)))
					return
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
			})
		}, "get=10", "members could not be taken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths, m := fewOfMany(t)
			served := s.servePackage(`"1"`)
			tt.source(s, served)
			rep := m.mustSync(destination.Baseline, 70, 10, 0, 0)
			wantWays(t, rep, tt.want)
			m.wantNote(tt.note)
			m.wantFiles(paths...)
			requests, sent := served.take()
			if tt.want == "range=10" && (sent > 300_000 || len(requests) > 5) {
				t.Errorf("sent of the package: got %d bytes by %q, want parts of it", sent, requests)
			}
		})
	}
	t.Run("without an ETag and without digests", func(t *testing.T) {
		s, paths, m := fewOfMany(t)
		served := s.servePackage("")
		text := s.served("/d/1.xml")
		for i, p := range paths {
			if lacking(i) {
				e := entryOf(text, p)
				text = bytes.Replace(text, []byte(e), bare([]byte(e)), 1)
			}
		}
		all := s.members("/d/1.zip")
		all[0].body = text
		s.repackAt(1, zipOf(t, all))
		s.put("/d/1.xml", text)
		s.offers("resourcedump", "/dump.xml")
		m.mustSync(destination.Baseline, 70, 10, 0, 0)
		m.wantFiles(paths...)
		if requests, _ := served.take(); !slices.Contains(requests, "") && s.asked("/r/") != 10 {
			t.Errorf("requests: got %q, want the whole package or none of it", requests)
		}
	})
}

// A member that is far larger than its resource, or takes far more bytes of the package, is not
// transferred.
func TestLargerMemberIsNotTransferred(t *testing.T) {
	const lacked = 1 + 12 // behind the manifest
	for _, tt := range []struct {
		name string
		pack func(*testing.T, []zipMember) []byte
	}{
		{"larger", func(t *testing.T, all []zipMember) []byte {
			all[lacked].body = make([]byte, 20<<20)
			return zipOf(t, all)
		}},
		{"of many empty blocks", func(t *testing.T, all []zipMember) []byte {
			return swollen(t, all, lacked, 4<<20)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths, m := fewOfMany(t)
			s.repackAt(1, tt.pack(t, s.members("/d/1.zip")))
			served := s.servePackage(`"1"`)
			wantWays(t, m.mustSync(destination.Baseline, 70, 10, 0, 0), "get=1 range=9")
			m.wantNote("limit reached")
			m.wantFiles(paths...)
			if requests, sent := served.take(); sent > 1<<20 {
				t.Errorf("sent of the package: got %d bytes by %q, want 1 MiB at most", sent, requests)
			}
		})
	}
}

// Nor is a manifest that is larger than any document.
func TestLargerManifestIsNotTransferred(t *testing.T) {
	s, paths, m := fewOfMany(t)
	all := s.members("/d/1.zip")
	all[0].body = append(all[0].body, bytes.Repeat([]byte(" "), fetch.MaxDocument)...)
	s.repackAt(1, zipOf(t, all))
	s.remove("/d/1.xml")
	served := s.servePackage(`"1"`)
	wantWays(t, m.mustSync(destination.Baseline, 70, 10, 0, 0), "get=10")
	m.wantNote("limit reached")
	m.wantFiles(paths...)
	if requests, sent := served.take(); sent > 1<<20 {
		t.Errorf("sent of the package: got %d bytes by %q, want 1 MiB at most", sent, requests)
	}
}

// swollen is a package in which member i begins with so many blocks that hold nothing.
func swollen(t *testing.T, all []zipMember, i, blocks int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for n, m := range all {
		h := &zip.FileHeader{Name: m.name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(m.body), UncompressedSize64: uint64(len(m.body))}
		packed := m.body
		if n == i {
			size := uint16(len(m.body))
			h.Method = zip.Deflate
			packed = bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, blocks)
			packed = append(packed, 1, byte(size), byte(size>>8), byte(^size), byte(^size>>8))
			packed = append(packed, m.body...)
		}
		h.CompressedSize64 = uint64(len(packed))
		w, err := z.CreateRaw(h)
		if err == nil {
			_, err = w.Write(packed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The next package is transferred while the present one is unpacked, and no other.
func TestOnePackageIsTransferredAhead(t *testing.T) {
	const n, each = 6, 30
	s := newSource(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	paths := s.fill(n * each)
	s.list(0, paths...)
	var all []aPackage
	for i := range n {
		all = append(all, aPackage{path: fmt.Sprintf("/d/%d", i), entries: s.entries(paths[i*each : (i+1)*each]...)})
	}
	s.dump(0, all...)
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	var asked, taken atomic.Int64 // packages asked for whole; members taken
	for i := range n {
		path := all[i].path + ".zip"
		s.answer(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				if ahead := asked.Add(1) - taken.Load()/each; ahead > 3 { // one in use, one ahead, one whose last member was not counted yet
					t.Errorf("packages asked for beyond those that were unpacked: got %d", ahead)
				}
			}
			_, _ = w.Write(s.served(path))
		})
	}
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) {
		d.Mirror = counting{Mirror: d.Mirror, n: &taken}
	}
	wantWays(t, m.mustSync(destination.Baseline, 0, n*each, 0, 0), fmt.Sprintf("dump=%d", n*each))
	m.wantFiles(paths...)
}

// A batch with members of packages takes more resources than one with requests; if the
// packages cannot be had, it ends when it has as many requests as any other.
func TestMembersRequestedAfterAllMakeNoLargerBatch(t *testing.T) {
	s, paths := dumped(t, 1200)
	s.answer("/d/1.zip", http.NotFound)
	s.answer("/d/2.zip", http.NotFound)
	var taken, most atomic.Int64
	m := newMirror(t, s)
	m.set = func(d *destination.Destination) {
		d.Workers = 1
		d.Mirror = counting{d.Mirror, &taken, &most}
	}
	wantWays(t, m.mustSync(destination.Baseline, 0, int64(len(paths)), 0, 0), fmt.Sprintf("get=%d", len(paths)))
	const half, started = 250, 64 // and those that are started together with the last of them
	if n := most.Load(); n < half || n > half+2*started {
		t.Errorf("resources of the largest batch: got %d, want between %d and %d", n, half, half+2*started)
	}
}

// counting is a Mirror that counts what is put into it.
type counting struct {
	destination.Mirror
	n    *atomic.Int64
	most *atomic.Int64 // into one batch; nil: nobody asks
}

func (c counting) Begin(ctx context.Context) (destination.Batch, error) {
	b, err := c.Mirror.Begin(ctx)
	return &countingBatch{Batch: b, of: c}, err
}

type countingBatch struct {
	destination.Batch
	of counting
	n  atomic.Int64
}

func (b *countingBatch) Put(ctx context.Context, set string, w harvest.Resource, r io.Reader, verified bool) (int64, error) {
	n, err := b.Batch.Put(ctx, set, w, r, verified)
	b.of.n.Add(1)
	b.n.Add(1)
	return n, err
}

func (b *countingBatch) Commit(ctx context.Context, move *destination.CursorMove) error {
	if n := b.n.Load(); b.of.most != nil && n > b.of.most.Load() { // one commits at a time
		b.of.most.Store(n)
	}
	return b.Batch.Commit(ctx, move)
}
