package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

const testBase = "http://museum.example.org/"

var testStart = time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)

// site is a Source whose truth is a map from URI to content.
type site struct {
	t       *testing.T
	bucket  blob.Bucket
	staging blob.Bucket
	journal Journal
	records blob.Bucket // of the journal
	log     *BucketJournal
	p       *Publisher
	now     time.Time

	truth    map[string]string
	changes  []resourcesync.Entry // all of them, in order
	contents []string             // of the changes
	states   []map[string]string  // URI to hash: before the first change, and after each

	policy Policy
	dumps  bool // it has Change Dumps
}

func newSite(t *testing.T) *site {
	s := &site{t: t, bucket: blob.NewMem(), staging: blob.NewMem(), records: blob.NewMem(), now: testStart, truth: map[string]string{}}
	s.log = NewJournal(s.records)
	s.journal = s.log
	s.states = []map[string]string{{}}
	s.reopen()
	return s
}

// offerAll makes a site that offers everything.
func (s *site) offerAll() {
	s.dumps = true
	s.policy = Policy{
		About:    About{Title: "Paintings & drawings", Contact: "desk@museum.example.org"},
		OnDemand: testBase + "packages",
		Archive:  &Archive{},
	}
}

// reopen makes a new Publisher, as a new run does.
func (s *site) reopen() {
	s.p = &Publisher{
		Bucket: s.bucket, Staging: s.staging, Journal: s.journal,
		BaseURL: testBase, UUID: "11111111-1111-4111-8111-111111111111",
		Generator: "instep test", MaxEntries: 3,
		Now: func() time.Time { return s.now },
	}
}

// clone is a site like this one, with documents and a memory of its own.
func (s *site) clone() *site {
	c := newSite(s.t)
	for _, b := range [][2]blob.Bucket{{s.bucket, c.bucket}, {s.staging, c.staging}, {s.records, c.records}} {
		for _, key := range keysOf(s.t, b[0]) {
			put(s.t, b[1], key, string(bytesOf(s.t, b[0], key)))
		}
	}
	c.now, c.truth, c.changes, c.contents, c.states = s.now, maps.Clone(s.truth), slices.Clone(s.changes), slices.Clone(s.contents), slices.Clone(s.states)
	c.policy, c.dumps, c.journal = s.policy, s.dumps, c.log
	c.reopen()
	return c
}

// known are the keys of the documents that are ours by the journal.
func (s *site) known() []string {
	var keys []string
	for _, key := range keysOf(s.t, s.records) {
		if key, ok := strings.CutPrefix(key, documentsAs); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// set records that a resource has new content; "" deletes it.
func (s *site) set(name, content string) {
	s.now = s.now.Add(time.Second)
	uri := testBase + name
	en := resourcesync.Entry{Loc: uri}
	en.Datetime = resourcesync.DatetimeOf(s.now)
	_, had := s.truth[uri]
	switch {
	case content == "":
		en.Change = resourcesync.Deleted
		delete(s.truth, uri)
	case had:
		en.Change = resourcesync.Updated
	default:
		en.Change = resourcesync.Created
	}
	if content != "" {
		s.truth[uri] = content
		en.Digests, en.Length, en.Type = digestsOf(content), resourcesync.Bytes(int64(len(content))), "text/plain"
		en.LastMod = resourcesync.DatetimeOf(s.now)
	}
	s.changes, s.contents = append(s.changes, en), append(s.contents, content)
	s.states = append(s.states, hashes(s.truth))
}

func digestsOf(content string) resourcesync.Digests {
	h := resourcesync.NewHasher(resourcesync.SHA256)
	h.Write([]byte(content))
	return h.Digests()
}

func (s *site) snapshot() *Snapshot {
	s.now = s.now.Add(time.Second)
	return &Snapshot{At: s.now, Completed: s.now.Add(time.Second), Through: int64(len(s.changes)), Resources: s.resources()}
}

func (s *site) resources() iter.Seq2[resourcesync.Entry, error] {
	truth := maps.Clone(s.truth)
	return func(yield func(resourcesync.Entry, error) bool) {
		for _, uri := range slices.Sorted(maps.Keys(truth)) {
			en := resourcesync.Entry{Loc: uri, LastMod: resourcesync.DatetimeOf(testStart)}
			en.Digests, en.Length, en.Type = digestsOf(truth[uri]), resourcesync.Bytes(int64(len(truth[uri]))), "text/plain"
			if !yield(en, nil) {
				return
			}
		}
	}
}

// window lists the changes after number after, up to through; those after number
// packed are in no package yet.
func (s *site) window(after, packed, through int, from time.Time) Window {
	w := Window{
		Number: int64(after + 1), From: from, Through: int64(through),
		Changes: func(yield func(resourcesync.Entry, error) bool) {
			for _, en := range s.changes[after:through] {
				if !yield(en, nil) {
					return
				}
			}
		},
	}
	if s.dumps {
		packed = min(max(packed, after), through)
		w.FreshFrom, w.Fresh = from, s.fresh(packed, through)
		if packed > after {
			w.FreshFrom = s.changes[packed-1].Datetime.Time().Add(time.Microsecond)
		}
	}
	return w
}

// fresh are changes with their bytes.
func (s *site) fresh(after, through int) iter.Seq2[Bitstream, error] {
	return func(yield func(Bitstream, error) bool) {
		for i := after; i < through; i++ {
			b := Bitstream{Entry: s.changes[i]}
			if s.changes[i].Change != resourcesync.Deleted {
				b.Open = opens(s.contents[i])
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

func opens(content string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}
}

// dump is the state of a snapshot with the bytes.
func (s *site) dump(snap *Snapshot) *Dump {
	truth := maps.Clone(s.truth)
	return &Dump{At: snap.At, Completed: snap.Completed, Through: snap.Through, Bitstreams: func(yield func(Bitstream, error) bool) {
		for en, err := range snap.Resources {
			if !yield(Bitstream{Entry: en, Open: opens(truth[en.Loc])}, err) {
				return
			}
		}
	}}
}

func (s *site) publish(u Update) Publication {
	s.t.Helper()
	pub, err := s.p.Publish(s.t.Context(), u)
	if err != nil {
		s.t.Fatalf("Publish: %v", err)
	}
	return pub
}

// first is the Update of a set that was never published.
func (s *site) first() Update {
	snap, n := s.snapshot(), len(s.changes)
	return s.dress(Update{Snapshot: snap, Changes: []Window{s.window(n, n, n, snap.At)}})
}

// dress adds what the site offers besides.
func (s *site) dress(u Update) Update {
	u.Policy = s.policy
	if s.dumps && u.Snapshot != nil {
		u.Dump = s.dump(u.Snapshot)
	}
	return u
}

// more is an Update that continues with the Change List of the last publication.
func (s *site) more(rebase bool) Update {
	last := s.last()
	u := Update{Changes: []Window{s.window(int(last.ChangesNumber)-1, int(last.ChangesThrough), len(s.changes), last.ChangesFrom)}}
	if rebase {
		u.Snapshot = s.snapshot()
	}
	return s.dress(u)
}

func (s *site) last() Publication {
	last, _, err := s.log.Last(context.Background(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}

// rotate is an Update that closes the Change List at before, and lists what came
// later in a new one. A snapshot is of the moment of the division.
func (s *site) rotate(before int, at time.Time, rebase bool) Update {
	last := s.last()
	packed := int(last.ChangesThrough)
	closing := s.window(int(last.ChangesNumber)-1, packed, before, last.ChangesFrom)
	closing.Until = at
	u := Update{Changes: []Window{closing, s.window(before, packed, len(s.changes), at)}}
	if rebase {
		u.Snapshot = s.snapshot()
		u.Snapshot.At = at
	}
	return s.dress(u)
}

func (s *site) fill(n int) {
	for i := range n {
		s.set(fmt.Sprintf("item/%d.txt", i), fmt.Sprintf("content %d", i))
	}
}

func keysOf(t *testing.T, b blob.Bucket) []string {
	t.Helper()
	var keys []string
	for info, err := range b.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	return keys
}

func put(t *testing.T, b blob.Bucket, key, content string) {
	t.Helper()
	if _, err := blob.Write(context.Background(), b, strings.NewReader(content), blob.Put{Key: key}); err != nil {
		t.Fatal(err)
	}
}

func bytesOf(t *testing.T, b blob.Bucket, key string) []byte {
	t.Helper()
	data, err := blob.ReadAll(context.Background(), b, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func read(t *testing.T, b blob.Bucket, key string) string {
	t.Helper()
	return string(bytes.TrimSpace(bytesOf(t, b, key)))
}

func hashes(truth map[string]string) map[string]string {
	m := map[string]string{}
	for uri, content := range truth {
		m[uri] = digestsOf(content).String()
	}
	return m
}
