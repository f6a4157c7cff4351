package transfer

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

// After a crash, a file of up to CheckpointBytes must be fetched again completely, and
// at most maxAgain bytes of a larger one. On a fast line, a checkpoint after every
// CheckpointBytes would cost more time than it saves, so there is a pause between
// checkpoints.
const (
	CheckpointBytes = 8 << 20
	checkpointPause = time.Second // minimum time between two checkpoints that are less than maxAgain bytes apart
	maxAgain        = 32 << 20
)

// copyBytes is the number of bytes per write. It is a multiple of the page size, which
// is fastest.
const copyBytes = 256 << 10

// An interrupted transfer may join bytes of two versions. A digest of the whole
// resource detects this. Without a digest, only a strong ETag prevents it.
func proof(ds resourcesync.Digests) fetch.Resume {
	if len(ds) > 0 {
		return fetch.ResumeVerified
	}
	return fetch.ResumeStrong
}

// CodingOf returns the content coding of a response; "" if there is none.
func CodingOf(resp *fetch.Response) string {
	if coding := strings.Join(resp.Header.Values("Content-Encoding"), ", "); !strings.EqualFold(coding, "identity") {
		return coding
	}
	return ""
}

// IsMismatch reports whether err means that the received bytes differ from those that
// the Source describes.
func IsMismatch(err error) bool {
	var me *resourcesync.MismatchError
	return errors.As(err, &me)
}

func closeBody(resp *fetch.Response) error {
	if resp == nil {
		return nil
	}
	return resp.Body.Close()
}

// Download is the transfer of a large resource into a Part. A later run can continue an
// interrupted Download.
type Download struct {
	Client  *fetch.Client
	Request fetch.Request // request for the whole resource
	Length  resourcesync.Length
	Digests resourcesync.Digests
	Accept  func(*fetch.Response) error // called before the body of a response is read; if it returns an error, the response is not used
	Part    Part                        // receives the bytes; it may already have some from an earlier run

	hash   *resourcesync.Hasher // hash of the bytes in Part
	note   checkpoint
	at     int64     // size in bytes of Part at the last checkpoint
	when   time.Time // time of the last checkpoint of this run, or of the start of the transfer
	joined bool      // Part has bytes of an earlier run
}

// checkpoint describes the bytes of a Part. It is stored as JSON in the note of that
// Part.
type checkpoint struct {
	Version string `json:"version"` // validator for the request of the missing bytes (see fetch.Part); "" if they cannot be requested
	Coding  string `json:"coding"`  // content coding of the stored bytes
	Length  int64  `json:"length"`  // length of the resource according to the Source; -1 if unknown
	Total   int64  `json:"total"`   // length of the resource according to the server; 0 if the server did not state it
	Digests string `json:"digests"` // digests of the resource according to the Source
	Hash    []byte `json:"hash"`    // state of the hash of the stored bytes
}

// Run fetches the resource into Part and verifies it. first is a response to Request,
// or nil. If the bytes are wrong, and some of them are from an earlier run, Run fetches
// all bytes once more.
func (dl *Download) Run(ctx context.Context, first *fetch.Response) error {
	dl.Digests = slices.DeleteFunc(slices.Clone(dl.Digests), resourcesync.Digest.IsZero)
	if err := dl.restore(); err != nil {
		return errors.Join(err, closeBody(first))
	}
	err := dl.fetchMissing(ctx, first)
	if !IsMismatch(err) || !dl.joined {
		return err
	}
	return dl.Again(ctx)
}

// Again empties Part and fetches the whole resource.
func (dl *Download) Again(ctx context.Context) error {
	if err := dl.begin(); err != nil {
		return err
	}
	return dl.fetchMissing(ctx, nil)
}

func (dl *Download) begin() error {
	dl.hash = dl.hasher()
	dl.note = checkpoint{Length: dl.Length.Int64(), Digests: dl.Digests.String()}
	dl.at = 0
	return dl.Part.Truncate(0)
}

func (dl *Download) hasher() *resourcesync.Hasher {
	var algs []resourcesync.Algorithm
	for _, d := range dl.Digests {
		algs = append(algs, d.Algorithm())
	}
	return resourcesync.NewHasher(algs...)
}

// restore shortens Part to its size at the last checkpoint, because only these bytes
// are durable. It empties Part if that checkpoint does not describe the wanted
// resource.
func (dl *Download) restore() error {
	text, at := dl.Part.Note()
	var note checkpoint
	if at <= 0 || at > dl.Part.Size() || json.Unmarshal([]byte(text), &note) != nil || note.Version == "" ||
		note.Length != dl.Length.Int64() || note.Digests != dl.Digests.String() {
		return dl.begin()
	}
	dl.hash = dl.hasher()
	if dl.hash.UnmarshalBinary(note.Hash) != nil { // another version of the program wrote the hash, so all bytes are fetched again
		return dl.begin()
	}
	dl.note, dl.at = note, at
	return dl.Part.Truncate(at)
}

func (dl *Download) fetchMissing(ctx context.Context, first *fetch.Response) error {
	if n := dl.Part.Size(); n > 0 && n == dl.Length.Int64() { // an earlier run has received all bytes
		dl.joined = true
		return errors.Join(dl.verify(), closeBody(first))
	}
	resp, err := dl.requestMissing(ctx, first)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if dl.joined = resp.Offset > 0; !dl.joined {
		if err := dl.begin(); err != nil {
			return err
		}
		dl.note.Version, dl.note.Coding, dl.note.Total = resp.Resumable(dl.Request.Resume), CodingOf(resp), max(resp.Total, 0)
	}
	whole := *resp
	whole.ContentLength = resp.Total
	if err := dl.Accept(&whole); err != nil {
		return &harvest.SourceError{Err: err}
	}
	if err := dl.receive(ctx, resp.Body); err != nil {
		return err
	}
	return dl.verify()
}

// requestMissing requests the bytes that are not stored yet. If the server cannot send
// exactly these bytes, it requests the whole resource.
func (dl *Download) requestMissing(ctx context.Context, first *fetch.Response) (*fetch.Response, error) {
	have := dl.Part.Size()
	if have == 0 && first != nil {
		return first, nil
	}
	_ = closeBody(first)
	req := dl.Request
	if have > 0 {
		req.Part = &fetch.Part{From: have, IfRange: dl.note.Version}
	}
	resp, err := dl.Client.Get(ctx, req)
	if err == nil && resp.Offset > 0 && !dl.continues(resp) {
		_ = resp.Body.Close()
		err = fetch.Protocol
	}
	if have > 0 && errors.Is(err, fetch.Protocol) {
		resp, err = dl.Client.Get(ctx, dl.Request)
	}
	if err != nil {
		return nil, &harvest.SourceError{Err: err}
	}
	return resp, nil
}

// continues reports whether the bytes of a partial response continue the stored ones.
// The ETag alone does not show this, since some servers keep the ETag when a file is
// replaced.
func (dl *Download) continues(resp *fetch.Response) bool {
	return CodingOf(resp) == dl.note.Coding && (dl.note.Total == 0 || resp.Total < 0 || resp.Total == dl.note.Total)
}

// receive appends a body to Part. It hashes one buffer while it reads the next one.
func (dl *Download) receive(ctx context.Context, body io.Reader) error {
	var hashing sync.WaitGroup
	defer hashing.Wait()
	dl.when = dl.Client.Now()
	buf, other := make([]byte, copyBytes), make([]byte, copyBytes)
	for ; ; buf, other = other, buf {
		n, err := fill(body, buf)
		hashing.Wait()
		if most := dl.Length.Int64(); most >= 0 && dl.Part.Size()+int64(n) > most {
			return dl.mismatch(&resourcesync.MismatchError{What: "length", Want: strconv.FormatInt(most, 10), Got: "more"})
		}
		if most := dl.Request.MaxBytes; dl.Part.Size()+int64(n) > most { // Part.Size includes the bytes of earlier runs
			return &harvest.SourceError{Err: &fetch.Error{Op: "read", URL: dl.Request.URL, Kind: fetch.TooLarge, Msg: fmt.Sprintf("expected at most %d bytes, received more", most)}}
		}
		came := buf[:n]
		hashing.Go(func() { _, _ = dl.hash.Write(came) }) // a hash never returns an error
		if _, err := dl.Part.Write(came); err != nil {
			return err
		}
		if dl.isCheckpointDue() {
			hashing.Wait()
			if err := dl.checkpoint(ctx); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &harvest.SourceError{Err: fmt.Errorf("%s: %w", dl.Request.URL, err)}
		}
	}
}

// fill reads until buf is full or a read returns an error.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}

func (dl *Download) isCheckpointDue() bool {
	switch n := dl.Part.Size() - dl.at; {
	case n < CheckpointBytes || dl.note.Version == "":
		return false
	case n >= maxAgain:
		return true
	default:
		return dl.Client.Now().Sub(dl.when) >= checkpointPause
	}
}

func (dl *Download) checkpoint(ctx context.Context) error {
	if dl.note.Version == "" || dl.at == dl.Part.Size() {
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
	dl.at = dl.Part.Size()
	err = dl.Part.Checkpoint(ctx, string(text))
	dl.when = dl.Client.Now()
	return err
}

func (dl *Download) verify() error {
	if want, got := dl.Length.Int64(), dl.Part.Size(); want >= 0 && got != want {
		return dl.mismatch(&resourcesync.MismatchError{What: "length", Want: strconv.FormatInt(want, 10), Got: strconv.FormatInt(got, 10)})
	}
	for i, got := range dl.hash.Digests() {
		if want := dl.Digests[i]; got != want {
			return dl.mismatch(&resourcesync.MismatchError{What: string(got.Algorithm()), Want: want.String(), Got: got.String()})
		}
	}
	return nil
}

func (dl *Download) mismatch(me *resourcesync.MismatchError) error {
	return &harvest.SourceError{Err: fmt.Errorf("%s: %w", dl.Request.URL, me)}
}

// Leave closes Part after Run has returned the error err. It keeps the bytes for a
// later run, unless they are wrong or the server cannot send the missing bytes alone.
func (dl *Download) Leave(ctx context.Context, err error) error {
	if IsMismatch(err) || errors.Is(err, fetch.TooLarge) || dl.note.Version == "" {
		return dl.Part.Discard()
	}
	return errors.Join(dl.checkpoint(context.WithoutCancel(ctx)), dl.Part.Close())
}
