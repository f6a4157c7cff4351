package source

import (
	"bytes"
	"context"
	"fmt"
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
	log     *memJournal
	p       *Publisher
	now     time.Time

	truth   map[string]string
	changes []resourcesync.Entry // all of them, in order
}

func newSite(t *testing.T) *site {
	s := &site{t: t, bucket: blob.NewMem(), staging: blob.NewMem(), log: newMemJournal(), now: testStart, truth: map[string]string{}}
	s.journal = s.log
	s.reopen()
	return s
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
	s.changes = append(s.changes, en)
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

// window lists the changes after number after, up to through.
func (s *site) window(after, through int, from time.Time) Window {
	return Window{
		Number: int64(after + 1), From: from, Through: int64(through),
		Changes: func(yield func(resourcesync.Entry, error) bool) {
			for _, en := range s.changes[after:through] {
				if !yield(en, nil) {
					return
				}
			}
		},
	}
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
	snap := s.snapshot()
	return Update{Snapshot: snap, Changes: []Window{s.window(len(s.changes), len(s.changes), snap.At)}}
}

// more is an Update that goes on with the Change List of the last publication.
func (s *site) more(rebase bool) Update {
	last, _, err := s.log.Last(context.Background(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	u := Update{Changes: []Window{s.window(int(last.ChangesNumber)-1, len(s.changes), last.ChangesFrom)}}
	if rebase {
		u.Snapshot = s.snapshot()
	}
	return u
}

// rotate is an Update that closes the Change List at before, and lists what came
// later in a new one. The snapshot is of the moment of the division.
func (s *site) rotate(before int, at time.Time) Update {
	last, _, err := s.log.Last(context.Background(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	closing := s.window(int(last.ChangesNumber)-1, before, last.ChangesFrom)
	closing.Until = at
	snap := s.snapshot()
	snap.At = at
	return Update{Changes: []Window{closing, s.window(before, len(s.changes), at)}, Snapshot: snap}
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

func read(t *testing.T, b blob.Bucket, key string) string {
	t.Helper()
	data, err := blob.ReadAll(context.Background(), b, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(data))
}

func hashes(truth map[string]string) map[string]string {
	m := map[string]string{}
	for uri, content := range truth {
		m[uri] = digestsOf(content).String()
	}
	return m
}
