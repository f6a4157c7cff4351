package packages

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"instep/fetch"
	"instep/harvest"
	"instep/pack"
)

func TestChunksOf(t *testing.T) {
	const m = 1 << 20
	for _, tt := range []struct {
		name    string
		members []span
		want    string // of each chunk: its requests, and how many members it has
	}{
		{"nothing", nil, ""},
		{"neighbours", []span{{0, 100}, {100, 200}, {200, 300}}, "0-300:3"},
		{"neighbours in another order", []span{{100, 200}, {0, 100}, {200, 300}}, "0-300:3"},
		{"a short gap", []span{{0, 100}, {200, 300}}, "0-300:2"},
		{"a long gap", []span{{0, 100}, {100 + GapSize + 1, m}}, "0-100,65637-1048576:2"},
		{"as many as fit", []span{{0, 3 * m / 4}, {3 * m / 4, m}, {m, 5 * m / 4}}, "0-1048576:2 1048576-1310720:1"},
		{"a member larger than a chunk", []span{{0, 10}, {10, 9 * m}, {9 * m, 10 * m}}, "0-10:1 10-9437184:1 9437184-10485760:1"},
		{"a member that is wanted twice", []span{{0, 10}, {10, 20}, {0, 10}}, "0-20:3"},
		{"invalid ones", []span{{0, 10}, {10, 10}, {10, 5}, {10, 20}}, "0-20:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range chunksOf(tt.members) {
				var spans []string
				for _, s := range c.ranges {
					spans = append(spans, fmt.Sprintf("%d-%d", s.from, s.to))
				}
				got = append(got, fmt.Sprintf("%s:%d", strings.Join(spans, ","), c.unread))
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Gaps between small members may be more than the members are: then nothing of the gaps
// comes into memory.
func TestGapsOfAChunkAreBounded(t *testing.T) {
	var members []span
	for i := range int64(1000) {
		members = append(members, span{i * GapSize, i*GapSize + 10})
	}
	for _, c := range chunksOf(members) {
		if n := totalSize(c.ranges); n > 2*chunkLength {
			t.Errorf("a chunk of %d members has %d bytes, want at most %d", c.unread, n, 2*chunkLength)
		}
	}
}

// aRemote is a remote package of which members are taken.
type aRemote struct {
	*Unpacker
	p       *plannedPackage
	pkg     *Opened
	content []byte           // the package
	members []pack.Bitstream // in the order of the package
	bodies  [][]byte         // theirs
	asked   atomic.Int64     // requests for chunks
}

// newARemote opens a package with members of these sizes. answer answers the requests for
// chunks, counted from 1; nil: as it should be.
func newARemote(t *testing.T, sizes []int, answer func(n int64, w http.ResponseWriter, r *http.Request, next http.Handler)) *aRemote {
	t.Helper()
	a := &aRemote{}
	a.content = a.pack(t, sizes)
	whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	})
	var opened atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !opened.Load() || answer == nil {
			whole(w, r)
			return
		}
		answer(a.asked.Add(1), w, r, whole)
	}))
	t.Cleanup(srv.Close)
	client, err := fetch.New(fetch.Options{Backoff: 1, MaxRetries: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.TrustSource(t.Context(), srv.URL); err != nil {
		t.Fatal(err)
	}
	from := &Transport{Client: client, Spool: t.TempDir()}
	if a.pkg, err = from.openRemote(t.Context(), &harvest.Package{URI: srv.URL + "/1.zip"}); err != nil {
		t.Fatal(err)
	}
	a.pkg.remote.tail = nil // or small packages would need no request
	opened.Store(true)
	for i := range sizes {
		b, ok := a.pkg.zip.Find(fmt.Sprint(i))
		if !ok {
			t.Fatalf("there is no member %d", i)
		}
		a.members = append(a.members, b)
	}
	nothing := func(func(Member, error) bool) {}
	a.Unpacker = from.Unpack(t.Context(), nil, "", nil, nothing, nil)
	return a
}

// The end of a package, which is in memory, and the rest, which is requested, read as one.
func TestRemotePackageReadsLikeAFile(t *testing.T) {
	for _, size := range []int{0, 100, TailSize, TailSize + 1, 3 * TailSize} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			a := newARemote(t, []int{size}, nil)
			content := a.content
			for _, tail := range []int{0, min(TailSize, len(content)), len(content)} {
				a.pkg.remote.tail = content[len(content)-tail:]
				at := remoteAt{t.Context(), a.pkg.remote}
				for _, n := range []int{0, 1, 512, tail, len(content), len(content) + 1} {
					for _, off := range []int{0, 1, 512, len(content) - tail - 512, len(content) - tail - 1, len(content) - tail, len(content) - 1, len(content)} {
						if off < 0 || off > len(content) {
							continue
						}
						got := make([]byte, n)
						read, err := at.ReadAt(got, int64(off))
						want := content[off:min(off+n, len(content))]
						if !bytes.Equal(got[:read], want) || (len(want) < n) != errors.Is(err, io.EOF) || len(want) == n && err != nil {
							t.Errorf("tail of %d: %d bytes at %d: got %d, %v; want %d", tail, n, off, read, err, len(want))
						}
					}
				}
			}
		})
	}
}

func (a *aRemote) pack(t *testing.T, sizes []int) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	luck := rand.NewChaCha8([32]byte{1})
	for i, n := range sizes {
		body := make([]byte, n)
		_, _ = luck.Read(body)
		w, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprint(i), Method: zip.Store})
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.bodies = append(a.bodies, body)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// begin begins to load the members that are wanted, in this order.
func (a *aRemote) begin(ctx context.Context, order []int) {
	var spans []span
	for _, i := range order {
		spans = append(spans, spanOf(a.members[i]))
	}
	a.p = &plannedPackage{chunks: chunksOf(spans)}
	a.transfer.Go(func() { a.load(ctx, a.pkg, a.p.chunks) })
}

// take takes a member, compares its bytes and gives it back.
func (a *aRemote) take(ctx context.Context, i int) error {
	r, err := a.openMember(ctx, a.p, a.members[i], 1<<30)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, a.bodies[i]) {
		err = fmt.Errorf("member %d: got other bytes, %d of them", i, len(got))
	}
	return errors.Join(err, r.Close(), r.Close())
}

// takeAll has workers take members, which they get in this order, and returns all errors.
func (a *aRemote) takeAll(ctx context.Context, workers int, order []int) error {
	next := make(chan int)
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range next {
				errs[w] = errors.Join(errs[w], a.take(ctx, i))
			}
		})
	}
	for _, i := range order {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

// wantEmpty checks that no chunk is left in memory.
func (a *aRemote) wantEmpty(fail func(string, ...any)) {
	a.transfer.Wait()
	if n := len(a.chunks); n > 0 {
		fail("chunks that have room in memory at the end: got %d, want none", n)
	}
	for i, c := range a.p.chunks {
		if c.unclaimed != 0 || c.unread != 0 || c.segments != nil || c.ranges != nil {
			fail("chunk %d at the end: %d unclaimed, %d unread, %d segments, %d ranges; want none", i, c.unclaimed, c.unread, len(c.segments), len(c.ranges))
		}
	}
}

// Any number of workers, any order and any member twice, any place where answers break off:
// everything arrives, and nothing waits for ever.
func TestChunksBringEverything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 3000), rapid.IntRange(50<<10, 260<<10), rapid.IntRange(1<<20, 9<<20)), 1, 20).Draw(rt, "sizes")
		order := rapid.SliceOfN(rapid.IntRange(0, len(sizes)-1), 1, 40).Draw(rt, "order")
		if rapid.Bool().Draw(rt, "sorted") {
			slices.Sort(order)
		}
		workers := rapid.IntRange(1, 8).Draw(rt, "workers")
		cuts := rapid.SliceOfN(rapid.IntRange(0, 4<<20), 0, 3).Draw(rt, "cuts")
		a := newARemote(t, sizes, func(n int64, w http.ResponseWriter, r *http.Request, next http.Handler) {
			if n <= int64(len(cuts)) {
				w = &cutting{w, cuts[n-1]}
			}
			next.ServeHTTP(w, r)
		})
		defer a.Close()
		a.begin(t.Context(), order)
		if err := a.takeAll(t.Context(), workers, order); err != nil {
			rt.Error(err)
		}
		a.wantEmpty(rt.Errorf)
	})
}

// cutting breaks an answer off after so many bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// A server that gives nothing more fails all members, with an error of the Source, and is not
// asked for each of the chunks.
func TestChunksFailTogether(t *testing.T) {
	a := newARemote(t, slices.Repeat([]int{1 << 20}, 60), func(_ int64, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusNotFound)
	})
	defer a.Close()
	all := make([]int, 60)
	for i := range all {
		all[i] = i
	}
	a.begin(t.Context(), all)
	for _, i := range all {
		if err := a.take(t.Context(), i); !harvest.IsSourceError(err) {
			t.Errorf("member %d: got %v, want an error of the Source", i, err)
		}
	}
	if n := a.asked.Load(); n > chunksAtOnce {
		t.Errorf("requests: got %d, want at most %d", n, chunksAtOnce)
	}
	a.wantEmpty(t.Errorf)
}

// No more chunks are transferred than there is room for, however long nobody takes them.
func TestChunksWaitForRoom(t *testing.T) {
	a := newARemote(t, slices.Repeat([]int{chunkLength - 1000}, 10), func(_ int64, w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
	})
	defer a.Close()
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	a.begin(t.Context(), all)
	for i := range chunksAtOnce {
		<-a.p.chunks[i].loaded
	}
	if n := a.asked.Load(); n != chunksAtOnce {
		t.Errorf("requests while nobody takes a member: got %d, want %d", n, chunksAtOnce)
	}
	if err := a.takeAll(t.Context(), 1, all); err != nil {
		t.Error(err)
	}
	a.wantEmpty(t.Errorf)
}

// A worker that waits for a silent server can be cancelled, and so can the transfer.
func TestChunksEndWithTheContext(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("", func(t *testing.T) {
		asked := make(chan struct{}, 100)
		a := newARemote(t, []int{1000, 1000}, func(_ int64, _ http.ResponseWriter, r *http.Request, _ http.Handler) {
			asked <- struct{}{}
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		a.begin(ctx, []int{0, 1})
		<-asked
		cancel()
		if err := a.take(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		a.Close()
	})
}

// A member that is too large is given back.
func TestChunkOfTooLargeMember(t *testing.T) {
	a := newARemote(t, []int{1000, 1000}, nil)
	defer a.Close()
	a.begin(t.Context(), []int{0, 1})
	if _, err := a.openMember(t.Context(), a.p, a.members[0], 999); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("got %v, want %v", err, pack.ErrLimit)
	}
	if err := a.take(t.Context(), 1); err != nil {
		t.Error(err)
	}
	a.wantEmpty(t.Errorf)
}
