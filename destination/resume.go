package destination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// What is not larger than checkpointBytes is brought again altogether after a crash, and
// of what is larger at most maxAgain: to wait for the disk after each checkpointBytes would
// take longer than a fast line takes to bring them again.
const (
	checkpointBytes = 8 << 20
	checkpointPause = time.Second // between checkpoints that are nearer to each other than maxAgain
	maxAgain        = 32 << 20
)

// copyBytes is how much is written at a time: whole pages of a file cost the least.
const copyBytes = 256 << 10

// proof is what a transfer that broke off goes on by. A digest tells in the end whether
// bytes of two versions were joined; without one only a strong ETag does.
func proof(ds resourcesync.Digests) fetch.Resume {
	if len(ds) > 0 {
		return fetch.ResumeVerified
	}
	return fetch.ResumeStrong
}

// codingOf is the content coding of an answer; "" if it has none.
func codingOf(resp *fetch.Response) string {
	if coding := strings.Join(resp.Header.Values("Content-Encoding"), ", "); !strings.EqualFold(coding, "identity") {
		return coding
	}
	return ""
}

// part opens what is kept of a transfer of so many bytes (-1: unknown), or nil if
// nothing is worth to be kept.
func (r *runner) part(ctx context.Context, w *harvest.Resource, length int64) Part {
	keeper, ok := optional[Parts](r.d.Mirror)
	if !ok || length >= 0 && length <= checkpointBytes {
		return nil
	}
	p, err := keeper.Part(ctx, w.URI)
	if err != nil {
		r.d.note(r.sp.Set, fmt.Sprintf("%s: if its transfer breaks off, nothing of it is kept: %v", w.URI, err))
		return nil
	}
	return p
}

// getPart is get into a part. first is the answer, if it was asked for already.
func (r *runner) getPart(ctx context.Context, b Batch, w harvest.Resource, at string, p Part, first *fetch.Response) (n int64, coding string, err error) {
	req := request(&w)
	req.URL = at
	dl := &download{
		client: r.d.Client, part: p, req: req, length: w.Length, digests: w.Digests,
		accept: func(resp *fetch.Response) error {
			if surprising(&w, resp) { // it was not, when the transfer began
				return fmt.Errorf("%s: now in the content coding %q, which nobody asked for", w.URI, codingOf(resp))
			}
			if !w.Provable() {
				r.odd.look(resp, w.URI)
			}
			if resp.Offset == 0 {
				r.arrive(&w, resp)
			}
			return plausible(&w, resp)
		},
	}
	if err := dl.run(ctx, first); err != nil {
		return 0, dl.note.Coding, errors.Join(err, dl.leave(ctx, err))
	}
	n, err = r.putPart(ctx, b, w, dl)
	return n, dl.note.Coding, err
}

// putPart gives what was brought to the batch. The disk may have lost since what an
// earlier run had verified: then all is brought once more.
func (r *runner) putPart(ctx context.Context, b Batch, w harvest.Resource, dl *download) (n int64, err error) {
	put := func() (int64, error) {
		return b.PutPart(ctx, r.sp.Set, w, dl.part, w.Provable())
	}
	n, err = put()
	if errors.Is(err, ErrNotHeld) && dl.joined {
		if err := dl.again(ctx); err != nil {
			return 0, errors.Join(err, dl.leave(ctx, err))
		}
		n, err = put()
	}
	switch {
	case errors.Is(err, ErrNotHeld):
		err = errors.Join(err, dl.part.Discard())
	case err != nil:
		err = errors.Join(err, dl.part.Close())
	}
	return n, err
}

// request is what is asked for to get w.
func request(w *harvest.Resource) fetch.Request {
	req := fetch.Request{URL: w.URI, MaxBytes: maxResource, Resume: proof(w.Digests)}
	if w.Length.Known() {
		req.MaxBytes = w.Length.Int64() + slack
	}
	return req
}

// persist is get, tried again as often as any request if a body broke off that could
// not go on.
func (r *runner) persist(ctx context.Context, b Batch, w harvest.Resource, at string) (n int64, coding string, err error) {
	for failed := 1; ; failed++ {
		n, coding, err = r.get(ctx, b, w, at, false)
		var fe *fetch.Error
		if err == nil {
			r.budget.came(&w, n)
		}
		if !errors.As(err, &fe) || !fe.Restart || !r.d.Client.BackOff(ctx, failed) {
			return n, coding, err
		}
	}
}

func closeBody(resp *fetch.Response) error {
	if resp == nil {
		return nil
	}
	return resp.Body.Close()
}

// download is a large transfer into a Part, with which a later run can go on.
type download struct {
	client  *fetch.Client
	req     fetch.Request // of the whole
	length  resourcesync.Length
	digests resourcesync.Digests
	accept  func(*fetch.Response) error // judges an answer for the whole before its body is read
	part    Part                        // with what an earlier run has left

	hash   *resourcesync.Hasher // of the bytes in part
	note   checkpoint
	at     int64     // bytes in part at the last checkpoint
	when   time.Time // of the last checkpoint; before the first one of this run when its bytes began to come
	joined bool      // to the bytes of an earlier run
}

// checkpoint is what is noted of the bytes that are here.
type checkpoint struct {
	Version string `json:"version"` // by which the rest is asked for, as in fetch.Part; "": it cannot be
	Coding  string `json:"coding"`  // in which the bytes came
	Length  int64  `json:"length"`  // wanted; -1: unknown
	Total   int64  `json:"total"`   // as the server told it; 0: it did not
	Digests string `json:"digests"` // wanted
	Hash    []byte `json:"hash"`    // state of the Hasher
}

// run brings the whole into the part, verified. first is an answer to the request for
// the whole, or nil. If the bytes are not those that are wanted and some of them came
// earlier, they are brought once more.
func (dl *download) run(ctx context.Context, first *fetch.Response) error {
	dl.digests = slices.DeleteFunc(slices.Clone(dl.digests), resourcesync.Digest.IsZero)
	if err := dl.restore(); err != nil {
		return errors.Join(err, closeBody(first))
	}
	err := dl.bring(ctx, first)
	if !isMismatch(err) || !dl.joined {
		return err
	}
	return dl.again(ctx)
}

// again drops what is in the part and brings the whole.
func (dl *download) again(ctx context.Context) error {
	if err := dl.begin(); err != nil {
		return err
	}
	return dl.bring(ctx, nil)
}

// begin drops what is in the part.
func (dl *download) begin() error {
	dl.hash = dl.hasher()
	dl.note = checkpoint{Length: dl.length.Int64(), Digests: dl.digests.String()}
	dl.at = 0
	return dl.part.Truncate(0)
}

func (dl *download) hasher() *resourcesync.Hasher {
	var algs []resourcesync.Algorithm
	for _, d := range dl.digests {
		algs = append(algs, d.Algorithm())
	}
	return resourcesync.NewHasher(algs...)
}

// restore goes back to the last checkpoint, if that is of what is wanted now.
func (dl *download) restore() error {
	text, at := dl.part.Note()
	var note checkpoint
	if at <= 0 || at > dl.part.Size() || json.Unmarshal([]byte(text), &note) != nil || note.Version == "" ||
		note.Length != dl.length.Int64() || note.Digests != dl.digests.String() {
		return dl.begin()
	}
	dl.hash = dl.hasher()
	if dl.hash.UnmarshalBinary(note.Hash) != nil { // of another version of this program
		return dl.begin()
	}
	dl.note, dl.at = note, at
	return dl.part.Truncate(at)
}

// bring brings what lacks in the part and verifies the whole.
func (dl *download) bring(ctx context.Context, first *fetch.Response) error {
	if n := dl.part.Size(); n > 0 && n == dl.length.Int64() { // all was here when the earlier run ended
		dl.joined = true
		return errors.Join(dl.verify(), closeBody(first))
	}
	resp, err := dl.ask(ctx, first)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if dl.joined = resp.Offset > 0; !dl.joined {
		if err := dl.begin(); err != nil {
			return err
		}
		dl.note.Version, dl.note.Coding, dl.note.Total = resp.Resumable(dl.req.Resume), codingOf(resp), max(resp.Total, 0)
	}
	whole := *resp
	whole.ContentLength = resp.Total
	if err := dl.accept(&whole); err != nil {
		return &harvest.SourceError{Err: err}
	}
	if err := dl.receive(ctx, resp.Body); err != nil {
		return err
	}
	return dl.verify()
}

// ask asks for what lacks. A server that cannot give just that is asked for the whole.
func (dl *download) ask(ctx context.Context, first *fetch.Response) (*fetch.Response, error) {
	have := dl.part.Size()
	if have == 0 && first != nil {
		return first, nil
	}
	_ = closeBody(first)
	req := dl.req
	if have > 0 {
		req.Part = &fetch.Part{From: have, IfRange: dl.note.Version}
	}
	resp, err := dl.client.Get(ctx, req)
	if err == nil && resp.Offset > 0 && !dl.continues(resp) {
		_ = resp.Body.Close()
		err = fetch.Protocol
	}
	if have > 0 && errors.Is(err, fetch.Protocol) {
		resp, err = dl.client.Get(ctx, dl.req)
	}
	if err != nil {
		return nil, &harvest.SourceError{Err: err}
	}
	return resp, nil
}

// continues reports whether an answer with a part speaks of the bytes that are here:
// there are servers that keep the ETag of what they replace.
func (dl *download) continues(resp *fetch.Response) bool {
	return codingOf(resp) == dl.note.Coding && (dl.note.Total == 0 || resp.Total < 0 || resp.Total == dl.note.Total)
}

// receive adds a body to the part. What came last is hashed while it is written and more
// is read.
func (dl *download) receive(ctx context.Context, body io.Reader) error {
	var hashing sync.WaitGroup
	defer hashing.Wait()
	dl.when = dl.client.Now()
	buf, other := make([]byte, copyBytes), make([]byte, copyBytes)
	for ; ; buf, other = other, buf {
		n, err := fill(body, buf)
		hashing.Wait()
		if most := dl.length.Int64(); most >= 0 && dl.part.Size()+int64(n) > most {
			return dl.mismatch(&resourcesync.MismatchError{What: "length", Want: strconv.FormatInt(most, 10), Got: "more"})
		}
		if most := dl.req.MaxBytes; dl.part.Size()+int64(n) > most { // with what earlier runs have left
			return &harvest.SourceError{Err: &fetch.Error{Op: "read", URL: dl.req.URL, Kind: fetch.TooLarge, Msg: fmt.Sprintf("expected at most %d bytes, got more", most)}}
		}
		came := buf[:n]
		hashing.Go(func() { _, _ = dl.hash.Write(came) }) // never fails
		if _, err := dl.part.Write(came); err != nil {
			return err
		}
		if dl.due() {
			hashing.Wait()
			if err := dl.checkpoint(ctx); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &harvest.SourceError{Err: fmt.Errorf("%s: %w", dl.req.URL, err)}
		}
	}
}

// fill reads until buf is full or an error says why it is not.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}

// due reports whether so much came since the last checkpoint that it is time for another.
func (dl *download) due() bool {
	switch n := dl.part.Size() - dl.at; {
	case n < checkpointBytes || dl.note.Version == "":
		return false
	case n >= maxAgain:
		return true
	default:
		return dl.client.Now().Sub(dl.when) >= checkpointPause
	}
}

// checkpoint makes what is here the beginning from which a later run goes on.
func (dl *download) checkpoint(ctx context.Context) error {
	if dl.note.Version == "" || dl.at == dl.part.Size() {
		return nil
	}
	var err error
	if dl.note.Hash, err = dl.hash.MarshalBinary(); err != nil {
		return err
	}
	text, err := json.Marshal(dl.note)
	if err != nil {
		return err
	}
	dl.at = dl.part.Size()
	err = dl.part.Checkpoint(ctx, string(text))
	dl.when = dl.client.Now()
	return err
}

// verify compares the bytes that are here with what is wanted.
func (dl *download) verify() error {
	if want, got := dl.length.Int64(), dl.part.Size(); want >= 0 && got != want {
		return dl.mismatch(&resourcesync.MismatchError{What: "length", Want: strconv.FormatInt(want, 10), Got: strconv.FormatInt(got, 10)})
	}
	for i, got := range dl.hash.Digests() {
		if want := dl.digests[i]; got != want {
			return dl.mismatch(&resourcesync.MismatchError{What: string(got.Algorithm()), Want: want.String(), Got: got.String()})
		}
	}
	return nil
}

func (dl *download) mismatch(me *resourcesync.MismatchError) error {
	return &harvest.SourceError{Err: fmt.Errorf("%s: %w", dl.req.URL, me)}
}

// leave keeps what came before err for a later run, also when this one was interrupted.
func (dl *download) leave(ctx context.Context, err error) error {
	if isMismatch(err) || errors.Is(err, fetch.TooLarge) || dl.note.Version == "" {
		return dl.part.Discard()
	}
	return errors.Join(dl.checkpoint(context.WithoutCancel(ctx)), dl.part.Close())
}
