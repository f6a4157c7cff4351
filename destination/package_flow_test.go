package destination

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"instep/fetch"
	"instep/internal/spool"
	"instep/pack"
)

func TestLotsOf(t *testing.T) {
	const k = 1 << 10
	for _, tt := range []struct {
		name    string
		members []span
		want    string // from-to:members, with an f for those that go into the file
	}{
		{"nothing", nil, ""},
		{"neighbours in any order", []span{{100, 200}, {0, 100}, {200, 300}}, "0-300:3"},
		{"with a gap", []span{{0, 100}, {200, 300}}, "0-300:2"},
		{"as many as fit", []span{{0, 100 * k}, {100 * k, 256 * k}, {256 * k, 257 * k}}, "0-262144:2 262144-263168:1"},
		{"not across a gap that does not fit", []span{{0, 100}, {256 * k, 256*k + 1}}, "0-100:1 262144-262145:1"},
		{"exactly a lot", []span{{5, 5 + 256*k}}, "5-262149:1"},
		{"a large one between small ones", []span{{0, 10}, {10, 300 * k}, {300 * k, 301 * k}}, "0-10:1 10-307200:1f 307200-308224:1"},
		{"one that is wanted twice", []span{{10, 20}, {0, 10}, {10, 20}, {20, 30}}, "0-10:1 10-20:1f 20-30:1"},
		{"what is no span", []span{{0, 10}, {10, 10}, {10, 5}, {10, 20}}, "0-20:2"},
		{"overlapping ones", []span{{0, 10}, {0, 300 * k}, {5, 15}, {10, 20}}, "0-20:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, l := range lotsOf(tt.members) {
				s := fmt.Sprintf("%d-%d:%d", l.from, l.to, len(l.left))
				if l.filed {
					s += "f"
				}
				got = append(got, s)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// aFlow is a flow of all members of a package from a server that a test makes up.
type aFlow struct {
	*flow
	t       *testing.T
	bytes   []byte           // of the package
	members []pack.Bitstream // in their order
	bodies  [][]byte         // theirs

	mu    sync.Mutex // guards the rest
	asked []span
	open  int // answers that were not closed
}

// newAFlow begins it. answer returns how many bytes of an answer come until it breaks off,
// and with what error; nil: all of them come. twice is wanted a second time.
func newAFlow(t *testing.T, sizes []int, answer func(n int, s span) (int64, error), twice ...int) *aFlow {
	t.Helper()
	f := &aFlow{t: t}
	f.pack(sizes)
	client, err := fetch.New(fetch.Options{Backoff: 1, MaxRetries: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	dir := t.TempDir()
	of := &remotePackage{d: &Destination{Client: client, Spool: dir}, uri: "https://example.org/1.zip", total: int64(len(f.bytes)), file: spool.NewSparse(dir)}
	t.Cleanup(func() { _ = of.Close() })
	z, err := pack.Open(remoteAt{t.Context(), of.filled(t, f.bytes)}, of.total, pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	of.here = nil
	var wanted []pack.Bitstream
	for i := range sizes {
		b, ok := z.Find(fmt.Sprint(i))
		if !ok {
			t.Fatalf("there is no member %d", i)
		}
		f.members = append(f.members, b)
	}
	wanted = append(wanted, f.members...)
	for _, i := range twice {
		wanted = append(wanted, f.members[i])
	}
	f.flow = newFlow(t.Context(), of, f.serve(answer), wanted)
	t.Cleanup(f.flow.close)
	return f
}

func (f *aFlow) pack(sizes []int) {
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
			f.t.Fatal(err)
		}
		f.bodies = append(f.bodies, body)
	}
	if err := z.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.bytes = b.Bytes()
}

// filled is p with all of its bytes, as nobody is asked for the directory.
func (p *remotePackage) filled(t *testing.T, b []byte) *remotePackage {
	t.Helper()
	if err := p.take(span{0, p.total}, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (f *aFlow) serve(answer func(int, span) (int64, error)) asking {
	return func(ctx context.Context, s span) (*fetch.Response, error) {
		f.mu.Lock()
		f.asked = append(f.asked, s)
		n := len(f.asked)
		f.open++
		f.mu.Unlock()
		most, err := s.to-s.from, error(nil)
		if answer != nil {
			most, err = answer(n, s)
		}
		return &fetch.Response{Body: &anAnswer{f: f, ctx: ctx, r: bytes.NewReader(f.bytes[s.from : s.from+min(most, s.to-s.from)]), err: err}}, nil
	}
}

type anAnswer struct {
	f   *aFlow
	ctx context.Context
	r   io.Reader
	err error // at the end; nil: io.EOF
}

func (a *anAnswer) Read(b []byte) (int, error) {
	if a.ctx.Err() != nil {
		return 0, a.ctx.Err()
	}
	n, err := a.r.Read(b)
	if errors.Is(err, io.EOF) && a.err != nil {
		if errors.Is(a.err, errSilent) {
			<-a.ctx.Done()
			return n, a.ctx.Err()
		}
		err = a.err
	}
	return n, err
}

func (a *anAnswer) Close() error {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	a.f.open--
	return nil
}

var (
	errSilent = errors.New("nothing comes any more")
	errBroken = &fetch.Error{Op: "read", URL: "https://example.org/1.zip", Kind: fetch.Temporary, Msg: "cut off", Restart: true}
)

// take takes a member, compares its bytes and gives it back.
func (f *aFlow) take(ctx context.Context, i int) error {
	r, err := f.flow.open(ctx, f.members[i], 1<<30)
	if err != nil {
		return err
	}
	f.mustHoldFew()
	got, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(got, f.bodies[i]) {
		err = fmt.Errorf("member %d: got other bytes, %d of them", i, len(got))
	}
	return errors.Join(err, r.Close(), r.Close())
}

func (f *aFlow) mustTake(members ...int) {
	f.t.Helper()
	for _, i := range members {
		if err := f.take(f.t.Context(), i); err != nil {
			f.t.Errorf("member %d: %v", i, err)
		}
	}
}

// mustHoldFew checks that no more lots are in memory than may be.
func (f *aFlow) mustHoldFew() {
	f.flow.mu.Lock()
	defer f.flow.mu.Unlock()
	inMemory := 0
	for _, l := range f.lots {
		if l.isHere() && l.b != nil {
			inMemory++
		}
	}
	large := int64(0)
	for _, l := range f.lots {
		if l.filed {
			large = max(large, l.to-l.from)
		}
	}
	if f.filed < 0 || f.filed > max(flowFiled, large) {
		f.t.Errorf("%d bytes wait in the file, want at most %d", f.filed, max(flowFiled, large))
	}
	if f.held > flowLots || inMemory > f.held || f.held < 0 || f.reading < 0 || f.waiting < 0 {
		f.t.Errorf("held %d lots, %d of them here, %d members read, %d waiting; want at most %d", f.held, inMemory, f.reading, f.waiting, flowLots)
	}
}

// mustBeEmpty checks that nothing is left in memory.
func (f *aFlow) mustBeEmpty() {
	f.t.Helper()
	f.flow.mu.Lock()
	defer f.flow.mu.Unlock()
	if f.held != 0 || f.filed != 0 || f.reading != 0 || f.waiting != 0 {
		f.t.Errorf("at the end: %d lots held, %d bytes in the file, %d members read, %d waiting, want none", f.held, f.filed, f.reading, f.waiting)
	}
}

func (f *aFlow) spans() []span {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// lots40 are members of which each is a lot, large20 such as come into the file.
var (
	lots40  = slices.Repeat([]int{200 << 10}, 40)
	large20 = slices.Repeat([]int{1 << 20}, 20)
)

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Whoever takes members in whatever order: one alone never waits for room that nobody makes.
func TestFlowHandsOverInAnyOrder(t *testing.T) {
	backwards := upTo(40)
	slices.Reverse(backwards)
	for _, tt := range []struct {
		name  string
		sizes []int
		order []int
		inMem bool // nothing came into the file
	}{
		{"in their order", lots40, upTo(40), true},
		{"backwards", lots40, backwards, false},
		{"the last first", lots40, append([]int{39}, upTo(39)...), false},
		{"many in a lot", slices.Repeat([]int{1000}, 1000), upTo(1000), true},
		{"large ones", []int{10, 300 << 10, 10, 1 << 20, 10}, upTo(5), false},
		{"many large ones", large20, upTo(20), false},
		{"many large ones, backwards", large20, backwards[20:], false},
		{"one larger than may wait", []int{1000, 2 * flowFiled, 1 << 20}, upTo(3), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAFlow(t, tt.sizes, nil)
				begin := time.Now()
				f.mustTake(tt.order...)
				if took := time.Since(begin); took != 0 {
					t.Errorf("waited %v, want no waiting", took)
				}
				if got := len(f.spans()); got != 1 {
					t.Errorf("answers: got %d, want 1", got)
				}
				f.flow.close()
				f.mustBeEmpty()
				if got := len(f.of.here) == 0; got != tt.inMem {
					t.Errorf("nothing of it in the file: got %v, want %v (%v)", got, tt.inMem, f.of.here)
				}
			})
		})
	}
}

func TestFlowHandsAMemberOverTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAFlow(t, []int{10, 2000, 10}, nil, 1)
		f.mustTake(0, 1, 2, 1, 1)
		if got := len(f.spans()); got != 1 {
			t.Errorf("answers: got %d, want 1", got)
		}
	})
}

// An answer that breaks off is followed by one that begins with the lot that was not whole.
func TestFlowGoesOnAfterABrokenAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAFlow(t, lots40, func(n int, s span) (int64, error) {
			if n < 4 {
				return 3*200<<10 + 100<<10, errBroken
			}
			return s.to - s.from, nil
		})
		f.mustTake(upTo(40)...)
		var want []span
		for i := 0; i < 12; i += 3 {
			want = append(want, span{f.lots[i].from, f.lots[39].to})
		}
		if diff := cmp.Diff(want, f.spans(), cmp.AllowUnexported(span{})); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
	})
}

// A server that brings nothing more ends the wait of all, with an error of its side.
func TestFlowEndsForAllWhoWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error // nil: the body is too short
		asks int
	}{
		{"a server that always breaks off", errBroken, 4},
		{"one that fails", &fetch.Error{Op: "read", URL: "https://example.org/1.zip", Kind: fetch.Protocol, Msg: "more than announced"}, 1},
		{"one that sends less than it says", nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAFlow(t, lots40, func(n int, _ span) (int64, error) {
					if n == 1 {
						return 2 * 201 << 10, tt.err
					}
					return 0, tt.err
				})
				var all sync.WaitGroup
				for i := 2; i < 40; i++ {
					all.Go(func() {
						if err := f.take(t.Context(), i); !isRemote(err) {
							t.Errorf("member %d: got %v, want an error of the Source's side", i, err)
						}
					})
				}
				all.Wait()
				f.mustTake(0, 1)
				if got := len(f.spans()); got != tt.asks {
					t.Errorf("answers: got %d, want %d", got, tt.asks)
				}
				f.mustBeEmpty()
			})
		})
	}
}

// An answer that nobody takes from gives its place up, and the rest is asked for when
// somebody does. No more of it has come by then than there is room for, in memory or in
// the file.
func TestFlowGivesAnAnswerUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sizes []int
		room  int // lots that came
	}{
		{"small members", lots40, flowLots},
		{"large ones", large20, flowFiled>>20 - 1}, // each has a header, too
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAFlow(t, tt.sizes, nil)
				state := func() string {
					synctest.Wait()
					f.mu.Lock()
					defer f.mu.Unlock()
					return fmt.Sprintf("asked=%d open=%d", len(f.asked), f.open)
				}
				time.Sleep(flowPatience - time.Nanosecond)
				if got, want := state(), "asked=1 open=1"; got != want {
					t.Errorf("before the time: got %s, want %s", got, want)
				}
				time.Sleep(time.Nanosecond)
				if got, want := state(), "asked=1 open=0"; got != want {
					t.Errorf("after it: got %s, want %s", got, want)
				}
				time.Sleep(time.Hour)
				if got, want := state(), "asked=1 open=0"; got != want {
					t.Errorf("as long as nobody takes anything: got %s, want %s", got, want)
				}
				f.mustTake(upTo(len(tt.sizes))...)
				if diff := cmp.Diff(span{f.lots[tt.room].from, f.lots[len(f.lots)-1].to}, f.spans()[1], cmp.AllowUnexported(span{})); diff != "" {
					t.Errorf("asked for later (-want +got):\n%s", diff)
				}
				if got := len(f.spans()); got != 2 {
					t.Errorf("answers: got %d, want 2", got)
				}
				f.mustBeEmpty()
			})
		})
	}
}

// Who takes so slowly that answers are given up has each bring as much as half of the room.
func TestFlowGivesFewAnswersUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sizes []int
		most  int // answers
	}{
		{"small members", lots40, 1 + (40-flowLots)/(flowLots/2)},
		{"large ones", large20, 1 + (20-7+3)/4},
		{"some that fill the room", slices.Repeat([]int{flowFiled - 1000}, 3), 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAFlow(t, tt.sizes, nil)
				for i := range tt.sizes {
					time.Sleep(flowPatience + time.Nanosecond)
					f.mustTake(i)
				}
				if got := len(f.spans()); got > tt.most {
					t.Errorf("answers: got %d, want at most %d", got, tt.most)
				}
				f.mustBeEmpty()
			})
		})
	}
}

// What lies far apart comes in several answers: nobody wants what is between.
func TestFlowSkipsWhatNobodyWants(t *testing.T) {
	if got, want := unbroken(lotsOf([]span{{0, 100 << 10}, {1 << 20, 2 << 20}, {2<<20 + flowGap, 4 << 20}, {4<<20 + flowGap + 1, 6 << 20}})), 3; got != want {
		t.Errorf("lots of the first answer: got %d, want %d", got, want)
	}
}

// Whoever waits for a silent server can be called back, and so can the transfer.
func TestFlowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		f := newAFlow(t, lots40, func(int, span) (int64, error) { return 0, errSilent })
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := f.take(ctx, 3); !errors.Is(err, context.Canceled) {
				t.Errorf("called back: got %v, want canceled", err)
			}
		})
		all.Go(func() {
			if err := f.take(t.Context(), 5); !errors.Is(err, context.Canceled) {
				t.Errorf("closed: got %v, want canceled", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		f.flow.close()
		all.Wait()
		f.mustBeEmpty()
		if f.open != 0 {
			t.Errorf("answers that were not closed: %d", f.open)
		}
	})
}

// A member that was given back cannot be read: its memory is used again.
func TestFlowIsNotReadAfterClose(t *testing.T) {
	f := newAFlow(t, []int{100 << 10, 300 << 10}, nil)
	for i := range f.members {
		r, err := f.flow.open(t.Context(), f.members[i], 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 1000)); err == nil {
			t.Errorf("member %d: %d bytes read after Close, want an error", i, n)
		}
	}
	f.mustBeEmpty()
}

// A member that cannot be opened is given back.
func TestFlowOfTooLargeMember(t *testing.T) {
	f := newAFlow(t, []int{1000, 1000}, nil)
	if _, err := f.flow.open(t.Context(), f.members[0], 999); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("got %v, want %v", err, pack.ErrLimit)
	}
	f.mustTake(1)
	f.mustBeEmpty()
}

// Any number of takers, any order, any place where answers break off: everything arrives.
func TestFlowBringsEverything(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 3000), rapid.IntRange(50<<10, 260<<10), rapid.IntRange(250<<10, 600<<10)), 1, 60).Draw(rt, "sizes")
		workers := rapid.IntRange(1, 8).Draw(rt, "workers")
		mixed := rapid.IntRange(0, len(sizes)).Draw(rt, "mixed") // members that are taken in another order
		cuts := rapid.SliceOfN(rapid.Int64Range(0, 4<<20), 0, 3).Draw(rt, "cuts")
		order := rapid.Permutation(upTo(len(sizes))[:mixed]).Draw(rt, "order")
		order = append(order, upTo(len(sizes))[mixed:]...)
		f := newAFlow(t, sizes, func(n int, s span) (int64, error) {
			if n <= len(cuts) {
				return cuts[n-1], errBroken
			}
			return s.to - s.from, nil
		})
		defer f.flow.close()
		next := make(chan int)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for i := range next {
					f.mustTake(i)
				}
			})
		}
		for _, i := range order {
			next <- i
		}
		close(next)
		all.Wait()
		f.mustBeEmpty()
	})
}
