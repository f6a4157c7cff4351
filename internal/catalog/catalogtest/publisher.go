package catalogtest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

func publish(t *testing.T, s Stores, set catalog.SetID, f catalog.Finished) int64 {
	t.Helper()
	id, err := s.Publisher.BeginPublication(t.Context(), set)
	must(t, err)
	must(t, s.Publisher.CommitPublication(t.Context(), set, id, Start, "{}"))
	must(t, s.Publisher.FinishPublication(t.Context(), id, f))
	return id
}

// RunPublisher runs the suite of Publisher.
func RunPublisher(t *testing.T, make New) {
	for name, test := range map[string]func(*testing.T, Stores, *clock){
		"a publication is begun, committed, done":                       publications,
		"items are listed by set and kind":                              items,
		"documents are recorded until they are forgotten":               documents,
		"a piece is stored until a change in its directory is recorded": pieces,
		"an adoption is recorded completely or not at all":              adopted,
		"an adopted set continues after the adopted changes":            adoptedLog,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := begin(t, make)
			test(t, s, c)
		})
	}
}

func publications(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	last := func(wantID int64, wantBody string, wantDone bool) {
		t.Helper()
		id, body, done, err := s.Publisher.LastPublication(t.Context(), one)
		if id != wantID || body != wantBody || done != wantDone || err != nil {
			t.Errorf("LastPublication = %d, %q, %v, %v; want %d, %q, %v", id, body, done, err, wantID, wantBody, wantDone)
		}
	}
	last(0, "", false)
	lost, err := s.Publisher.BeginPublication(t.Context(), one)
	must(t, err)
	last(0, "", false)
	id, err := s.Publisher.BeginPublication(t.Context(), one)
	must(t, err)
	if id <= lost {
		t.Errorf("the publication has the id %d; want an id greater than %d", id, lost)
	}
	if err := s.Publisher.FinishPublication(t.Context(), id, catalog.Finished{}); err == nil {
		t.Error("FinishPublication accepts a publication that is not committed")
	}
	if err := s.Publisher.CommitPublication(t.Context(), two, id, Start, "of another set"); err == nil {
		t.Error("CommitPublication accepts the publication of another set")
	}
	must(t, s.Publisher.CommitPublication(t.Context(), one, id, Start, "body"))
	s = s.Reopen()
	last(id, "body", false)
	names, err := s.Publisher.PublishedSets(t.Context())
	must(t, err)
	want(t, "published sets", strings.Join(names, " "), "")
	must(t, s.Publisher.FinishPublication(t.Context(), id, catalog.Finished{}))
	must(t, s.Publisher.FinishPublication(t.Context(), id, catalog.Finished{})) // a second call, as after a crash
	last(id, "body", true)
	names, err = s.Publisher.PublishedSets(t.Context())
	must(t, err)
	want(t, "published sets", strings.Join(names, " "), "one")
	next, err := s.Publisher.BeginPublication(t.Context(), one)
	if must(t, err); next <= id {
		t.Errorf("the publication has the id %d; want an id greater than %d", next, id)
	}
	last(id, "body", true)
}

func items(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	publish(t, s, one, catalog.Finished{Items: []catalog.Item{{Kind: "list", Number: 3, Body: "c"}, {Kind: "list", Number: 1, Body: "a"}, {Kind: "dump", Number: 1, Body: "d"}}})
	publish(t, s, two, catalog.Finished{Items: []catalog.Item{{Kind: "list", Number: 2, Body: "other"}}})
	publish(t, s, one, catalog.Finished{Items: []catalog.Item{{Kind: "list", Number: 3, Body: "C"}, {Kind: "list", Number: 5, Body: "e"}}, Dropped: []catalog.Item{{Kind: "list", Number: 1}}})
	body := func(from int64) string {
		var b strings.Builder
		for _, it := range collect(t, s.Publisher.Items(t.Context(), one, "list", from)) {
			b.WriteString(it.Body)
		}
		return b.String()
	}
	want(t, "items", body(0), "Ce")
	want(t, "items from 4", body(4), "e")
}

func documents(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	doc := func(key string, length int64) catalog.Document {
		return catalog.Document{Key: key, Length: length, SHA256: [32]byte{byte(length)}, Immutable: true}
	}
	publish(t, s, id, catalog.Finished{Documents: []catalog.Document{doc("a", 1), doc("b", 2)}})
	second := publish(t, s, id, catalog.Finished{Documents: []catalog.Document{doc("c", 3), doc("b", 4)}, Retired: []string{"a", "b"}, At: Start})
	if got, ok, err := s.Publisher.Document(t.Context(), "b"); got != doc("b", 4) || !ok || err != nil {
		t.Errorf("Document(b) = %+v, %v, %v; want the last bytes", got, ok, err)
	}
	for _, c := range []struct {
		before time.Time
		id     int64
		want   string
	}{{Start, second, ""}, {Start.Add(time.Second), second, "a"}, {Start.Add(time.Second), 1, ""}} {
		want(t, "expired", strings.Join(collect(t, s.Publisher.ExpiredDocuments(t.Context(), c.before, c.id)), " "), c.want)
	}
	want(t, "all", strings.Join(collect(t, s.Publisher.Documents(t.Context())), " "), "a b c")
	must(t, s.Publisher.ForgetDocument(t.Context(), "a"))
	if _, ok, err := s.Publisher.Document(t.Context(), "a"); ok || err != nil {
		t.Errorf("Document after ForgetDocument = %v, %v; want false, nil", ok, err)
	}
}

func pieces(t *testing.T, s Stores, _ *clock) {
	id, other := set(t, s.Facts, ""), set(t, s.Facts, "other")
	must(t, s.Facts.Enroll(t.Context(), id, created("d/x")))
	must(t, s.Facts.Enroll(t.Context(), other, created("d/x")))
	piece := func(dir string, part int64) catalog.Piece {
		return catalog.Piece{Dir: catalog.SumOf(dir), Part: part, Digest: catalog.SumOf("seen")}
	}
	kept := []catalog.Piece{piece("d", 0), piece("d", 1), piece("e", 0), piece(".", 0)}
	known := func(set catalog.SetID) (text string) {
		t.Helper()
		found, err := s.Publisher.KnownPieces(t.Context(), set, append(kept, piece("f", 0)))
		must(t, err)
		for _, ok := range found {
			text += map[bool]string{true: "+", false: "-"}[ok]
		}
		return text
	}
	for _, set := range []catalog.SetID{id, other} {
		must(t, s.Publisher.KeepPieces(t.Context(), set, kept))
		want(t, "kept", known(set), "++++-")
	}
	other2 := kept[2]
	other2.Digest = catalog.SumOf("seen otherwise")
	must(t, s.Publisher.KeepPieces(t.Context(), id, []catalog.Piece{other2}))
	want(t, "seen otherwise", known(id), "++-+-")
	must(t, s.Facts.Record(t.Context(), id, []catalog.Change{change(resourcesync.Updated, "d/x", "new")}))
	want(t, "after a change", known(id), "---+-")
	want(t, "pieces of the set other, which has the same files", known(other), "--++-")
}

func adopted(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	refused := errors.New("refused")
	fill := func(end error) func(a *catalog.Adoption) error {
		return func(a *catalog.Adoption) error {
			must(t, a.Hold(id, change(resourcesync.Created, "held", "bytes")))
			must(t, a.Spell(host+"r&d.txt", host+"r%26d.txt"))
			must(t, a.Hold(id, catalog.Change{Change: resourcesync.Created, Resource: catalog.Resource{URI: host + "r%26d.txt", Path: "r&d.txt"}}))
			must(t, a.Publish(id, 7, "adopted", catalog.Finished{At: Start}))
			return end
		}
	}
	if err := s.Publisher.Adopt(t.Context(), 10, map[string]string{"a": "b"}, fill(refused)); !errors.Is(err, refused) {
		t.Fatalf("Adopt = %v, want the error of the function fill", err)
	}
	if _, ok, err := s.Facts.Setting(t.Context(), "a"); ok || err != nil {
		t.Errorf("Setting after Adopt has failed = %v, %v; want false, nil", ok, err)
	}
	if some, err := s.Publisher.Spells(t.Context()); some || err != nil {
		t.Errorf("spellings: %v, %v", some, err)
	}
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "")
	must(t, s.Publisher.Adopt(t.Context(), 10, map[string]string{"a": "b"}, fill(nil)))
	s = s.Reopen()
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "held r%26d.txt")
	spelled, err := s.Publisher.Spellings(t.Context(), []string{host + "r&d.txt", host + "held"})
	if some, asked := s.Publisher.Spells(t.Context()); err != nil || asked != nil || !some || len(spelled) != 1 || spelled[host+"r&d.txt"] != host+"r%26d.txt" {
		t.Errorf("spellings: %v, %v, %v, %v", some, spelled, err, asked)
	}
	if last, body, done, err := s.Publisher.LastPublication(t.Context(), id); last != 7 || body != "adopted" || !done || err != nil {
		t.Errorf("LastPublication after Adopt = %d, %q, %v, %v", last, body, done, err)
	}
	if err := s.Publisher.Adopt(t.Context(), 0, nil, fill(nil)); !errors.Is(err, catalog.ErrState) {
		t.Errorf("a second Adopt = %v, want ErrState", err)
	}
}

func adoptedLog(t *testing.T, s Stores, c *clock) {
	id := set(t, s.Facts, "")
	later := Start.Add(time.Hour)
	must(t, s.Publisher.Adopt(t.Context(), 40, nil, func(a *catalog.Adoption) error {
		ch := change(resourcesync.Created, "a", "bytes")
		ch.Datetime = later
		must(t, a.Hold(id, ch))
		_, err := a.Log(id, ch)
		return err
	}))
	next := created("b")
	must(t, s.Facts.Record(t.Context(), id, next))
	if !next[0].Datetime.After(later) || next[0].Seq <= 41 {
		t.Errorf("the change after Adopt has the number %d and the Datetime %s; want a greater number and a later Datetime than those of the adopted change, although the clock shows %s", next[0].Seq, next[0].Datetime, c.at)
	}
	want(t, "the log", names(collect(t, s.Facts.Changes(t.Context(), id, 0, maxSeq)), func(ch catalog.Change) string { return ch.URI }), "a b")
}
