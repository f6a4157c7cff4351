package source

import (
	"encoding/xml"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/blob"
)

const fixedKey = "resourcesync/changelist.xml"

// withFixed tells a story with a Change List at a fixed name.
func withFixed(tell func(*site) []func() Update) func(*site) []func() Update {
	return func(s *site) []func() Update {
		chapters := tell(s)
		for i, next := range chapters {
			chapters[i] = func() Update {
				u := next()
				u.Policy.FixedChanges = true
				return u
			}
		}
		return chapters
	}
}

// fixed reads the Change List at the fixed name; false if there is none.
func fixed(t *testing.T, b blob.Bucket) (page, bool) {
	t.Helper()
	var p page
	if _, err := b.Stat(t.Context(), fixedKey); errors.Is(err, blob.ErrNotExist) {
		return p, false
	}
	if err := xml.Unmarshal(bytesOf(t, b, fixedKey), &p); err != nil {
		t.Fatal(err)
	}
	if p.MD.Capability != "changelist" || p.MD.Until != "" {
		t.Errorf("got %+v, want an open Change List", p.MD)
	}
	return p, true
}

// poller knows one URI. It began with a Resource List, and since then reads the Change
// List at a fixed name and nothing else.
type poller struct {
	state map[string]string // URI to hash
	since time.Time         // of the last change that it knows of
}

// poll reads the list and applies what is new in it.
func (p *poller) poll(t *testing.T, list page) {
	t.Helper()
	if from := momentIn(t, list.MD.From); from.After(p.since) {
		t.Errorf("the list begins at %s, the poller was there at %s: it misses what came between", from, p.since)
	}
	last := time.Time{}
	for _, en := range list.Entries {
		if en.MD.Change == "" {
			continue // rs:md, rs:ln
		}
		at := momentIn(t, en.MD.Datetime)
		if at.Before(last) {
			t.Errorf("a change of %s after one of %s", at, last)
		}
		last = at
		switch {
		case !at.After(p.since):
		case en.MD.Change == "deleted":
			delete(p.state, en.Loc)
		default:
			p.state[en.Loc] = en.MD.Hash
		}
	}
	if last.After(p.since) {
		p.since = last
	}
}

func momentIn(t *testing.T, s string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// At every step of every publication a program that polls the one URI, as resync does
// with --changelist-uri, gets a state since the last publication, and after it the present
// one; no document names that URI.
func TestWhoPollsTheFixedChangeListMissesNothing(t *testing.T) {
	for name, tell := range map[string]func(*site) []func() Update{"plain": story, "everything": fullStory} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			var p *poller
			before, polls := 0, 0
			s.bucket = &stepBucket{Bucket: s.bucket, step: func() error {
				if list, ok := fixed(t, s.bucket); ok && p != nil {
					polls++
					p.poll(t, list)
					if !s.had(before, p.state) {
						t.Errorf("a poller gets no state since the one before: %s", cmp.Diff(hashes(s.truth), p.state))
					}
				}
				return nil
			}}
			s.reopen()
			for i, next := range withFixed(tell)(s) {
				pub := s.publish(next())
				w := newWalk(s.bucket)
				if err := w.walk(); err != nil {
					t.Fatalf("after publication %d: %v", i, err)
				}
				if slices.Contains(w.links, testBase+fixedKey) {
					t.Errorf("after publication %d: a document names %s", i, fixedKey)
				}
				if p == nil {
					p = &poller{state: maps.Clone(w.state), since: pub.ListAt}
				}
				list, ok := fixed(t, s.bucket)
				if !ok {
					t.Fatalf("after publication %d there is no %s", i, fixedKey)
				}
				p.poll(t, list)
				if diff := cmp.Diff(hashes(s.truth), p.state); diff != "" {
					t.Fatalf("after publication %d (-want +got):\n%s", i, diff)
				}
				if from := momentIn(t, list.MD.From); from.After(pub.ListAt) {
					t.Errorf("after publication %d: from %s, later than the Resource List of %s", i, from, pub.ListAt)
				}
				if last := pub.Documents[len(pub.Documents)-1].Key; last != fixedKey {
					t.Errorf("publication %d: %q came last, want %s", i, last, fixedKey)
				}
				before = len(s.changes)
			}
			if polls < 50 {
				t.Errorf("only %d polls", polls)
			}
		})
	}
}

// The process dies at each step, of the long story at each eleventh, with a Change List
// at a fixed name as well.
func TestCat_PUB_02_fixed_changes(t *testing.T) {
	t.Run("plain", func(t *testing.T) { crashEverywhere(t, withFixed(story), 1) })
	t.Run("everything", func(t *testing.T) { crashEverywhere(t, withFixed(fullStory), 11) })
}

// It holds whole Change Lists, the newest, as many as there is room for.
func TestFixedChangeListIsBounded(t *testing.T) {
	s := newSite(t)
	s.policy.FixedChanges = true
	s.fill(3)
	s.publish(s.first())
	var starts []string
	for i := range 6 {
		s.set("item/0.txt", "a"+strconv.Itoa(i))
		before, at := len(s.changes), s.now.Add(time.Microsecond)
		s.set("item/1.txt", "b"+strconv.Itoa(i))
		s.p.fixedMax = 5
		s.publish(s.rotate(before, at, false))
		list, _ := fixed(t, s.bucket)
		var got []string
		for _, en := range list.Entries {
			if en.MD.Change != "" {
				got = append(got, en.Loc)
			}
		}
		if want := min(2*(i+1), 5); len(got) != want {
			t.Errorf("list %d: got %d changes, want %d: closed lists of two and an open one, five at most", i, len(got), want)
		}
		starts = append(starts, list.MD.From)
	}
	if !slices.IsSorted(starts) || starts[0] == starts[5] {
		t.Errorf("from: got %q, want it to go on", starts)
	}
}

// What somebody has removed or changed is not told: the list begins after it.
func TestFixedChangeListBeginsAfterWhatIsLost(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		s := newSite(t)
		s.policy.FixedChanges = true
		s.fill(3)
		s.publish(s.first())
		s.set("item/0.txt", "first")
		before, at := len(s.changes), s.now.Add(time.Microsecond)
		s.set("item/0.txt", "second")
		s.publish(s.rotate(before, at, false))
		first, _ := fixed(t, s.bucket)
		key := "resourcesync/changes/" + strconv.FormatInt(s.last().FixedChanges, 10) + ".xml"
		if foreign {
			put(t, s.bucket, key, "theirs")
		} else if err := blob.Remove(t.Context(), s.bucket, []string{key}); err != nil {
			t.Fatal(err)
		}
		s.set("item/0.txt", "third")
		s.publish(s.more(false))
		list, _ := fixed(t, s.bucket)
		if !momentIn(t, list.MD.From).After(momentIn(t, first.MD.From)) || !strings.Contains(string(bytesOf(t, s.bucket, fixedKey)), "updated") {
			t.Errorf("from: got %s after %s, want it to begin after what is lost", list.MD.From, first.MD.From)
		}
	}
}

// Closed lists are told as the present Policy has it, whatever it was when they closed.
func TestFixedChangeListIsOfOneProfile(t *testing.T) {
	s := newSite(t)
	s.policy.FixedChanges = true
	s.fill(3)
	s.publish(s.first())
	for i, policy := range []Policy{{}, {Profile10: true}, {ProfileBoth: true}, {}} {
		policy.FixedChanges = true
		s.set("item/2.txt", strconv.Itoa(i))
		before, at := len(s.changes), s.now.Add(time.Microsecond)
		s.set("item/0.txt", strconv.Itoa(i))
		s.set("item/1.txt", "")
		s.set("item/1.txt", strconv.Itoa(i))
		s.policy = policy
		s.publish(s.rotate(before, at, false))
		text := string(bytesOf(t, s.bucket, fixedKey))
		changes := strings.Count(text, "<url>")
		if changes != 4*(i+1) {
			t.Errorf("policy %d: got %d changes, want %d", i, changes, 4*(i+1))
		}
		datetimes, lastmods := strings.Count(text, "datetime="), strings.Count(text, "<lastmod>")
		switch {
		case policy.Profile10 && (datetimes > 0 || lastmods != changes):
			t.Errorf("1.0: got %d datetimes and %d lastmods of %d changes", datetimes, lastmods, changes)
		case policy.ProfileBoth && (datetimes != changes || lastmods != changes):
			t.Errorf("both: got %d datetimes and %d lastmods of %d changes", datetimes, lastmods, changes)
		case policy == Policy{FixedChanges: true} && datetimes != changes:
			t.Errorf("1.1: got %d datetimes of %d changes", datetimes, changes)
		}
	}
}

// Without it the list goes, as everything does that is offered no more.
func TestFixedChangeListEnds(t *testing.T) {
	s := newSite(t)
	s.policy.FixedChanges = true
	s.fill(3)
	s.publish(s.first())
	s.policy.FixedChanges = false
	s.set("item/0.txt", "second")
	if pub := s.publish(s.more(true)); !slices.Contains(pub.Retired, fixedKey) || pub.FixedChanges != 0 {
		t.Errorf("Retired: got %q", pub.Retired)
	}
	for range 3 {
		s.now = s.now.Add(30 * time.Hour)
		s.set("item/0.txt", s.now.String())
		s.publish(s.more(true))
	}
	if _, ok := fixed(t, s.bucket); ok {
		t.Error("it is still there")
	}
}
