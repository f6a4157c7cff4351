package destination

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"instep/fetch"
	"instep/pack"
)

const (
	lotSize      = 256 << 10       // bytes that are read at a time
	flowLots     = 16              // lots in memory
	flowFiled    = 8 << 20         // bytes of larger members that came before somebody wanted them; one member may have more
	flowPatience = 2 * time.Second // how long an answer waits for room before it is given up
	flowGap      = 1 << 20         // bytes that nobody wants cost less than to wait for another answer
)

// errPaused says that an answer was given up, as nobody took what came.
var errPaused = errors.New("there was no room for more of the package")

// flow brings what is wanted of a large package in one answer, or one for each stretch
// of it, and hands it over lot by lot. The package itself is in no file: one in the
// file system of the mirror would be written to the disk with every batch.
//
// Its members are put before the package is whole, so each has to be proved by a digest
// of its own.
type flow struct {
	of     *remotePackage
	ask    asking
	lots   []*lot
	cancel context.CancelFunc
	ended  chan struct{} // closed when no further lot comes; then err says why
	err    error
	freed  chan struct{} // told that there may be room; has room for one

	mu      sync.Mutex // guards the rest
	held    int        // lots in memory
	filed   int64      // bytes of lots in the file that nobody has taken
	reading int        // members that are being read from memory, or will be at once
	waiting int        // who waits for a lot
}

// asking is how bytes of a package are asked for.
type asking = func(context.Context, span) (*fetch.Response, error)

// lot is some neighbouring members.
type lot struct {
	span
	filed bool          // the bytes come into the file of the package
	kept  bool          // room in the file is kept for it; flow.mu guards it
	came  chan struct{} // closed when they are here
	b     []byte        // nil: they are in the file

	left    map[span]bool // members that nobody has taken; flow.mu guards it
	read    int           // members that are being read; flow.mu guards it
	waiting int           // who waits for it; flow.mu guards it
}

// isHere reports whether the bytes are here. flow.mu has to be held.
func (l *lot) isHere() bool {
	select {
	case <-l.came:
		return true
	default:
		return false
	}
}

// lotMemory is memory to use again.
var lotMemory = sync.Pool{New: func() any { return new([lotSize]byte) }}

// newFlow begins to bring these bitstreams by answers to ask. Close it.
func newFlow(ctx context.Context, of *remotePackage, ask asking, all []pack.Bitstream) *flow {
	ctx, cancel := context.WithCancel(ctx)
	f := &flow{of: of, ask: ask, lots: lotsOf(spansOf(all)), cancel: cancel, ended: make(chan struct{}), freed: make(chan struct{}, 1)}
	go func() {
		defer close(f.ended)
		f.err = f.run(ctx)
	}()
	return f
}

// lotsOf puts members together that fit into one lot. One that is larger, or wanted
// several times, goes alone into the file. What is no span, or overlaps another, is in no
// lot.
func lotsOf(members []span) (lots []*lot) {
	slices.SortFunc(members, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var l *lot
	for i := 0; i < len(members); {
		m, times := members[i], 0
		for ; i < len(members) && members[i] == m; i++ {
			times++
		}
		if m.to <= m.from || l != nil && m.from < l.to {
			continue
		}
		if filed := times > 1 || m.to-m.from > lotSize; l == nil || filed || l.filed || m.to-l.from > lotSize {
			l = &lot{span: m, filed: filed, came: make(chan struct{}), left: map[span]bool{}}
			lots = append(lots, l)
		}
		l.to = m.to
		l.left[m] = true
	}
	return lots
}

// close ends the transfer.
func (f *flow) close() {
	if f != nil {
		f.cancel()
		<-f.ended
	}
}

// open opens a member once it is here. Close it.
func (f *flow) open(ctx context.Context, b pack.Bitstream, most int64) (io.ReadCloser, error) {
	from, n := b.Span()
	m := span{from, from + n}
	l, err := f.take(ctx, m)
	if err != nil {
		return nil, err
	}
	if l == nil { // it is in the file, or somebody else has got it
		if err := f.of.bring(ctx, []span{m}); err != nil {
			return nil, err
		}
		return b.Open(most)
	}
	r, err := b.OpenSpan(bytes.NewReader(l.b[from-l.from:][:n]), most)
	if err != nil {
		f.give(l)
		return nil, err
	}
	return &flowing{r, f, l}, nil
}

// flowing is a member that is read from memory.
type flowing struct {
	io.ReadCloser
	f *flow
	l *lot
}

// Close gives the memory back.
func (r *flowing) Close() error {
	err := r.ReadCloser.Close()
	if r.l != nil {
		r.f.give(r.l)
		r.l = nil
	}
	return err
}

// take waits for the lot with a member; nil if the member is not in memory.
func (f *flow) take(ctx context.Context, m span) (*lot, error) {
	i, ok := slices.BinarySearchFunc(f.lots, m.from, func(l *lot, from int64) int { return cmp.Compare(l.from, from) })
	if !ok {
		if i--; i < 0 {
			return nil, nil
		}
	}
	l := f.lots[i]
	f.mu.Lock()
	defer f.mu.Unlock()
	if !l.isHere() {
		if err := f.wait(ctx, l); err != nil {
			return nil, err
		}
	}
	f.leave(l)
	if l.b == nil || !l.left[m] {
		return nil, nil
	}
	delete(l.left, m)
	l.read++
	f.reading++
	return l, nil
}

// wait waits until a lot is here. f.mu is held, but not meanwhile.
func (f *flow) wait(ctx context.Context, l *lot) (err error) {
	l.waiting++
	f.waiting++
	f.free()
	f.mu.Unlock()
	select {
	case <-l.came:
	case <-ctx.Done():
		err = ctx.Err()
	case <-f.ended:
		err = f.err
	}
	f.mu.Lock()
	defer f.free()
	l.waiting--
	if l.isHere() {
		f.reading--
		return nil
	}
	f.waiting--
	return err
}

// arrive tells those who wait for a lot that it is here. They count as readers from now
// on, not only when they get to it: who is about to read is about to make room.
func (f *flow) arrive(l *lot, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.b = b
	f.waiting -= l.waiting
	f.reading += l.waiting
	close(l.came)
}

func (f *flow) free() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

// give gives a member back that was read. With the last one its lot goes.
func (f *flow) give(l *lot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.read--
	f.reading--
	if l.read == 0 && len(l.left) == 0 {
		lotMemory.Put((*[lotSize]byte)(l.b[:lotSize]))
		l.b = nil
		f.held--
	}
	f.free()
}

// run brings all lots, in as many answers as it takes.
func (f *flow) run(ctx context.Context) error {
	rest := f.lots
	for failed := 0; len(rest) > 0; {
		n, err := f.answer(ctx, rest)
		if rest = rest[n:]; n > 0 {
			failed = 0
		}
		if errors.Is(err, errPaused) {
			err = f.pause(ctx, rest[0])
		}
		if err == nil {
			continue
		}
		var fe *fetch.Error
		if failed++; !errors.As(err, &fe) || !fe.Restart || !f.of.d.Client.BackOff(ctx, failed) {
			return err
		}
	}
	return nil
}

// pause waits until it is worth asking for a lot and what follows it.
func (f *flow) pause(ctx context.Context, l *lot) error {
	for !f.resumes(l) {
		select {
		case <-f.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// resumes reports whether an answer will not soon be given up again: what the network has
// brought of it by then is lost. If nobody waits half of the room has to be free.
func (f *flow) resumes(l *lot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.fits(l):
		return f.stuck()
	case f.waiting > 0:
		return true
	case l.filed:
		return f.filed <= flowFiled/2
	}
	return f.held <= flowLots/2
}

// unbroken is how many of these lots, at least one, lie so near to each other that they
// come in one answer.
func unbroken(lots []*lot) int {
	for i := 1; i < len(lots); i++ {
		if lots[i].from-lots[i-1].to > flowGap {
			return i
		}
	}
	return len(lots)
}

// answer asks for what is still to come and hands over what comes: so many lots.
func (f *flow) answer(ctx context.Context, rest []*lot) (n int, err error) {
	rest = rest[:unbroken(rest)]
	at := rest[0].from
	resp, err := f.ask(ctx, span{at, rest[len(rest)-1].to})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body := f.of.body(resp)
	patience := time.NewTimer(flowPatience)
	defer patience.Stop()
	for _, l := range rest {
		if err := skip(body, l.from-at); err != nil {
			return n, err
		}
		patience.Reset(flowPatience)
		if err := f.receive(ctx, l, body, patience.C); err != nil {
			return n, err
		}
		at = l.to
		n++
	}
	return n, nil
}

func skip(r io.Reader, n int64) error {
	_, err := io.CopyN(io.Discard, r, n)
	return err
}

// receive takes a lot from a body.
func (f *flow) receive(ctx context.Context, l *lot, body io.Reader, giveUp <-chan time.Time) error {
	held, err := f.room(ctx, l, giveUp)
	if err != nil {
		return err
	}
	var b []byte
	if held && !l.filed {
		b = lotMemory.Get().(*[lotSize]byte)[:l.to-l.from]
		_, err = io.ReadFull(body, b)
	} else {
		err = f.of.take(l.span, body)
	}
	if err != nil && held {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.yield(l)
	}
	if err == nil {
		f.arrive(l, b)
	}
	return err
}

// room waits until there is room for one more lot, in memory or in the file, and keeps it.
// If all who could make room wait for what is still to come, or for nobody knows what, the
// lot goes into the file without.
func (f *flow) room(ctx context.Context, l *lot, giveUp <-chan time.Time) (held bool, err error) {
	for {
		if held, never := f.hold(l); held || never {
			return held, nil
		}
		select {
		case <-f.freed:
		case <-giveUp:
			return false, errPaused
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// hold keeps room for one more lot, if there is some, or tells that there will be none.
func (f *flow) hold(l *lot) (held, never bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.fits(l):
		return false, f.stuck()
	case l.filed:
		f.filed += l.to - l.from
		l.kept = true
	default:
		f.held++
	}
	return true, false
}

// fits reports whether there is room for one more lot. f.mu has to be held.
func (f *flow) fits(l *lot) bool {
	if l.filed {
		return f.filed == 0 || f.filed+l.to-l.from <= flowFiled
	}
	return f.held < flowLots
}

// stuck reports whether all who could make room wait. f.mu has to be held.
func (f *flow) stuck() bool { return f.waiting > 0 && f.reading == 0 }

// yield gives the room back that is kept for a lot which did not come. f.mu has to be held.
func (f *flow) yield(l *lot) {
	if !l.filed {
		f.held--
		f.free()
	}
	f.leave(l)
}

// leave gives back what is kept for a lot in the file: somebody takes it now. f.mu has to
// be held.
func (f *flow) leave(l *lot) {
	if l.kept {
		l.kept = false
		f.filed -= l.to - l.from
		f.free()
	}
}
