package where

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// Conditions select the records that fulfil all of them.
type Conditions []condition

// Parse reads conditions. `XPATH=VALUE` requires a node with this text, and `XPATH` any node.
func Parse(texts []string) (Conditions, error) {
	var all Conditions
	for _, text := range texts {
		c, err := parseCondition(text)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Chooser fetches records and evaluates conditions on them. It fetches a record only once,
// so each run needs a new Chooser.
type Chooser struct {
	client     *fetch.Client
	conditions Conditions

	mu   sync.Mutex // guards seen and size
	seen map[string]answer
	size int // estimated size of seen in bytes
}

type answer struct {
	selects bool
	err     error
}

// maxSeenBytes is the largest size of the stored results in bytes. When it is reached, all are
// dropped.
const maxSeenBytes = 32 << 20

// maxTime is the longest time for the transfer of a record, including its retries.
const maxTime = 2 * time.Minute

// New returns a Chooser that fetches records with the given client.
func New(client *fetch.Client, c Conditions) *Chooser {
	return &Chooser{client: client, conditions: c, seen: map[string]answer{}}
}

// String returns the conditions as text. Two Choosers with the same text select the
// same resources.
func (w *Chooser) String() string {
	var texts []string
	for _, c := range w.conditions {
		texts = append(texts, fmt.Sprintf("%q %q %t", c.path, c.value, c.exists))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// Selects reports whether the target of a link, a record, fulfils all conditions. The record
// is verified with the digests and the length of the link. An error means that the result is
// unknown: the record cannot be fetched, or it is not XML and the link has no digest.
func (w *Chooser) Selects(ctx context.Context, l resourcesync.Link) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := key(l)
	if a, known := w.seen[key]; known {
		return a.selects, a.err
	}
	text, sum, err := w.fetch(ctx, l)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	a := answer{err: err}
	if err == nil {
		a = w.evaluate(text, len(l.Digests) > 0)
		a.err = withURI(l.Href, a.err)
	}
	w.store(key, a)
	if a.err == nil { // the result is the same for links to the record that state other digests or none
		w.store(sum.String(), a)
		w.store(l.Href, a)
	}
	return a.selects, a.err
}

func (w *Chooser) store(key string, a answer) {
	const frame = 150
	size := frame + len(key)
	if a.err != nil {
		size += len(a.err.Error())
	}
	if w.size += size; w.size > maxSeenBytes {
		clear(w.seen)
		w.size = size
	}
	w.seen[key] = a
}

// key identifies the target of a link by the SHA-256 digest, or else by the URI and the other
// digests.
func key(l resourcesync.Link) string {
	if sum := l.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
		return resourcesync.Digests{sum}.String()
	}
	return strings.TrimSpace(l.Href + " " + l.Digests.String())
}

// evaluate evaluates the conditions on a record. A verified record that is not XML is not
// selected. For any other record that is not XML, the result is an error.
func (w *Chooser) evaluate(text []byte, proved bool) answer {
	r, err := parseRecord(text)
	switch {
	case err != nil && proved:
		return answer{}
	case err != nil:
		return answer{err: fmt.Errorf("the record is not well-formed XML: %w", err)}
	}
	work := &work{left: maxWork}
	for _, c := range w.conditions {
		if ok, err := c.holds(r, work); !ok || err != nil {
			return answer{err: err}
		}
	}
	return answer{selects: true}
}

// fetch verifies the target of a link with the length and the digests of the link. It returns
// the bytes and their SHA-256.
func (w *Chooser) fetch(ctx context.Context, l resourcesync.Link) ([]byte, resourcesync.Digests, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	want := harvest.Resource{URI: l.Href, Length: l.Length, Digests: l.Digests, Type: l.Type, Encoding: l.Encoding}
	if l.Length.Known() && l.Length.Int64() > maxRecord {
		return nil, nil, withURI(l.Href, fmt.Errorf("the link states a length of %d bytes; expected at most %d", l.Length.Int64(), maxRecord))
	}
	req := transfer.Request(&want)
	req.MaxBytes = maxRecord
	resp, err := w.client.Get(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	body, _, err := transfer.Body(&want, resp, transfer.CodingOf(resp) != "" && l.Encoding == "", "")
	if err != nil {
		return nil, nil, err
	}
	proof := resourcesync.NewVerifyReader(body, l.Length.Int64(), l.Digests, resourcesync.SHA256)
	text, err := io.ReadAll(io.LimitReader(proof, maxRecord+1))
	if err == nil && len(text) > maxRecord {
		err = fmt.Errorf("expected at most %d bytes, got more", maxRecord)
	}
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, nil, withURI(l.Href, err)
	}
	return text, resourcesync.Digests{proof.Digests().Get(resourcesync.SHA256)}, nil
}

func withURI(uri string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", uri, err)
}
