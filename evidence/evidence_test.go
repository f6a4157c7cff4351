package evidence

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func at(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// The table. What is held is as of 5: "listed" and "changed" are members by a list and by
// a change, "due" likewise by a change, "roughly" likewise, at 5 at the earliest and at 7 at the latest, "gone"
// was deleted then, "ahead" is a member by a change whose run left the cursor before it, "silently" is a member by a list that does not tell its moment,
// "wrongly" is a member as of a moment that is still to come, "nothing" is unknown.
// A statement is a kind, its time or bounds, and what else is known of it.
const table = `
# a document older than what was applied changes nothing
listed 9 old              | nothing | pass over | the resource may have been deleted since
absent 9 old              | nothing | keep      |
deleted 9 old             | nothing | keep      |
absent 9 old              | listed  | keep      |
deleted 9 old             | listed  | keep      |
listed 9 old              | gone    | keep      | the deletion stays known
updated 9 old             | due     | retry     | what is due is due

# nothing is held: any statement counts
listed 4                  | nothing | fetch     |
listed 4 same             | nothing | confirm   | another set holds the bytes
listed 0..9 differs       | silently | fetch    | a list without a moment after another
deleted 4                 | nothing | remember  | or the order of arrival would matter
absent 4                  | nothing | keep      |

# the later statement counts
listed 6 differs          | listed  | fetch     |
listed 6                  | listed  | fetch     | nothing ties the bytes to it
listed 6 same             | due     | fetch     | the bytes held are known to be wrong
absent 6                  | listed  | remove    |
absent 6 again            | listed  | withhold  | two lists of one moment
absent 6                  | gone    | keep      |
absent 6                  | wrongly | ask       |
deleted 6                 | wrongly | ask       |
deleted 6 last            | wrongly | remove    |
updated 6 differs         | changed | fetch     |
updated 6                 | changed | fetch     | never on the word of If-Modified-Since
created 6                 | gone    | fetch     |
deleted 6                 | listed  | remove    |
listed 6                  | gone    | fetch     |

# the earlier does not
listed 4 differs          | listed  | keep      |
listed 4 differs          | due     | retry     |
listed 0..9 differs       | changed | ask       | a list without a moment
absent 4                  | listed  | keep      |
updated 4 differs         | changed | keep      |
listed 4                  | gone    | keep      | a deletion that was applied stays applied

# of one moment: a list tells what was before it
listed 5 differs          | listed  | fetch     | other content of one moment: updates apply
listed 5 differs          | changed | keep      |
listed 5                  | gone    | keep      |
absent 5                  | listed  | withhold  | two lists of one moment
absent 5                  | changed | keep      |
updated 5 differs         | listed  | fetch     |
deleted 5                 | listed  | remove    |
updated 5 same            | changed | confirm   | applying twice is applying once
updated 5                 | changed | fetch     | two updates within one second
deleted 5                 | gone    | keep      | likewise
deleted 5                 | changed | ask       |
created 5                 | gone    | ask       |

# position counts where time does not say otherwise
deleted 6 last            | changed | remove    |
deleted 1.. last          | listed  | remove    | 1.0: a deletion without a time
deleted 4 last            | changed | ask       | a clock that was wrong, or a copy from before
updated 4 last differs    | changed | ask       |
created 4 last            | gone    | ask       |
deleted 1.. last          | ahead   | ask       | the position is not that of what is held

# neither time nor position is known
deleted 1..9              | listed  | ask       |
deleted 1..4              | listed  | keep      |
deleted 1..               | gone    | keep      |
deleted 6..9              | listed  | remove    |
updated 1.. same          | changed | confirm   |
updated 5..9 differs      | changed | ask       |
updated 0 differs         | wrongly | ask       |
created 1.. same          | gone    | ask       | another set holds the bytes
absent 6                  | roughly | ask       |
listed 6 torn             | listed  | ask       |
`

func TestTable(t *testing.T) {
	rows := 0
	for _, line := range strings.Split(table, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if rows++; rows > 60 {
			t.Fatal("a decision that needs more than 60 rows is not understood")
		}
		t.Run(cells[0]+", "+cells[1], func(t *testing.T) {
			got, why := Decide(statementOf(t, cells[0]), heldOf(t, cells[1]))
			if got.String() != cells[2] {
				t.Errorf("got %s (%s), want %s: %s", got, why, cells[2], cells[3])
			}
		})
	}
}

func statementOf(t *testing.T, text string) (s Statement) {
	words := strings.Fields(text)
	for s.Kind = 0; s.Kind.String() != words[0]; s.Kind++ {
	}
	from, to, bounds := strings.Cut(words[1], "..")
	var f, u int
	if _, err := fmt.Sscan(from, &f); err != nil {
		t.Fatal(err)
	}
	if u = f; bounds {
		u = 0
		_, _ = fmt.Sscan(to, &u) // "": open
	}
	s.From, s.To = at(f), at(u)
	for _, w := range words[2:] {
		switch w {
		case "old":
			s.Old = true
		case "again":
			s.Again = true
		case "last":
			s.Last = true
		case "torn":
			s.Torn = true
		case "same":
			s.Bytes = Same
		case "differs":
			s.Bytes = Differs
		default:
			t.Fatalf("%q", w)
		}
	}
	return s
}

func heldOf(t *testing.T, text string) Held {
	switch text {
	case "nothing":
		return Held{}
	case "listed":
		return Held{Member: true, At: at(5)}
	case "silently":
		return Held{Member: true}
	case "changed":
		return Held{Member: true, At: at(5), Change: true}
	case "ahead":
		return Held{Member: true, At: at(5), Change: true, Ahead: true}
	case "due":
		return Held{Member: true, At: at(5), Change: true, Due: true}
	case "roughly":
		return Held{Member: true, At: at(5), Change: true, Until: at(7)}
	case "wrongly":
		return Held{Member: true, Misdated: true, Change: true}
	case "gone":
		return Held{Gone: true, At: at(5), Change: true}
	}
	t.Fatalf("%q", text)
	return Held{}
}

// The whole product of statements and of what is held. Three moments are enough for all
// the orders of two, and the bounds around them.
func statements(yield func(Statement) bool) {
	times := [][2]int{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {1, 2}, {1, 3}, {2, 3}, {1, 0}, {2, 0}, {3, 0}, {0, 2}, {0, 3}}
	for k := range Kinds {
		for _, t := range times {
			if k == Absent && t[0] != t[1] || k == Listed && t[0] > 0 && t[0] != t[1] {
				continue // a list has one moment, or it is unknown but for the latest that it can be
			}
			for m := range matches {
				for flags := range 16 {
					s := Statement{
						Kind: k, From: at(t[0]), To: at(t[1]), Bytes: m,
						Old: flags&1 > 0, Again: flags&2 > 0 && !k.change(), Last: flags&4 > 0 && k.change(), Torn: flags&8 > 0 && k.change(),
					}
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

func holdings(yield func(Held) bool) {
	for _, h := range []Held{{}, {Member: true}, {Member: true, Due: true}, {Member: true, Change: true}, {Member: true, Change: true, Due: true}, {Member: true, Change: true, Ahead: true}, {Member: true, Change: true, Until: at(3)}, {Gone: true, Change: true}} {
		for n := range 4 {
			if h.At = at(n); n > 0 != (h.Member || h.Gone) && n > 0 {
				continue
			}
			if !yield(h) {
				return
			}
		}
	}
}

// applied is what is held once a decision was carried out. What is asked for, held back or
// passed over leaves it as it is.
func applied(s Statement, h Held, d Decision) Held {
	moment := s.From
	if h.At.After(moment) { // by position: it counts as of then
		moment = h.At
	}
	switch d {
	case Confirm, Fetch:
		return Held{Member: true, At: moment, Change: s.Kind.change()}
	case Remove, Remember:
		if s.Kind == Absent {
			return Held{}
		}
		return Held{Gone: true, At: moment, Change: true}
	}
	return h
}

func TestAnOlderDocumentChangesNothing(t *testing.T) {
	for s := range statements {
		for h := range holdings {
			d, _ := Decide(s, h)
			older := s.Old || (!s.Last || h.Ahead) && !s.Torn && !s.To.IsZero() && s.To.Before(h.At)
			if changes := d != Keep && d != Retry && d != PassOver; older && changes && (h.Member || h.Gone || s.Old) {
				t.Errorf("%+v of %+v: %s", s, h, d)
			}
		}
	}
}

func TestApplyingTwiceIsApplyingOnce(t *testing.T) {
	for s := range statements {
		for h := range holdings {
			d, _ := Decide(s, h)
			once := applied(s, h, d)
			again := s
			if d == Fetch && s.Bytes != Untied {
				again.Bytes = Same // they came, and are those
			}
			again.Last = false // its position is applied
			d2, _ := Decide(again, once)
			if twice := applied(again, once, d2); twice != once && d != Ask {
				t.Errorf("%+v of %+v: %s, then %s: %+v, not %+v", s, h, d, d2, twice, once)
			}
		}
	}
}

// Two statements with times and digests end alike in either order, unless the URI is asked
// or somebody has to approve. The second one finds the bytes of the first.
func TestTheOrderOfArrivalDoesNotMatter(t *testing.T) {
	plain := func(s Statement) bool {
		return s.From.Equal(s.To) && !s.From.IsZero() && !s.Old && !s.Again && !s.Last && !s.Torn && s.Bytes == Differs
	}
	end := func(a, b Statement) (string, bool) {
		d, _ := Decide(a, Held{})
		h := applied(a, Held{}, d)
		what := ""
		if h.Member {
			what = "a"
		}
		d, _ = Decide(b, h)
		switch after := applied(b, h, d); {
		case d == Ask || d == Withhold || d == PassOver:
			return "", false
		case !after.Member:
			return "", true
		case d == Fetch:
			return "b", true
		}
		return what, true
	}
	pairs := 0
	for a := range statements {
		if !plain(a) {
			continue
		}
		for b := range statements {
			if !plain(b) || a.Kind != b.Kind && !a.Kind.change() && !b.Kind.change() && a.From.Equal(b.From) || a.Kind == b.Kind && a.From.Equal(b.From) {
				continue // two lists, or two like statements, of one moment have no order
			}
			if a.Kind.change() && b.Kind.change() && a.From.Equal(b.From) {
				continue // likewise two changes
			}
			if a.Kind == Absent && b.Kind != Absent && a.From.After(b.From) || b.Kind == Absent && a.Kind != Absent && b.From.After(a.From) {
				continue // absence is no evidence of its own: the document is Old then
			}
			one, ok := end(a, b)
			other, ok2 := end(b, a)
			other = strings.NewReplacer("a", "b", "b", "a").Replace(other)
			if pairs++; ok && ok2 && one != other {
				t.Errorf("%+v, %+v: %q, and the other way round %q", a, b, one, other)
			}
		}
	}
	if pairs < 50 {
		t.Errorf("only %d pairs", pairs)
	}
}

func TestNoDeletionWithoutEvidence(t *testing.T) {
	for s := range statements {
		for h := range holdings {
			d, _ := Decide(s, h)
			if d != Remove && d != Remember {
				continue
			}
			says := s.Kind == Absent && !s.Again || s.Kind == Deleted
			newer := !h.Member && !h.Gone || s.From.After(Later(h.At, h.Until)) || s.Kind == Deleted && (s.Last && !h.Ahead && !(!s.To.IsZero() && s.To.Before(h.At)) || s.From.Equal(h.At) && !h.Change)
			if !says || s.Old || s.Torn || !newer {
				t.Errorf("%+v of %+v: %s", s, h, d)
			}
		}
	}
}

func TestWhatCannotBePlacedIsAsked(t *testing.T) {
	for s := range statements {
		for h := range holdings {
			inside := (s.Kind.change() || s.Kind == Listed && !s.To.Equal(s.From)) && s.From.Before(h.At) && (s.To.IsZero() || s.To.After(h.At)) || s.From.After(h.At) && !s.From.After(h.Until)
			if s.Old || s.Last && !h.Ahead || s.Torn || !inside || !h.Member && !h.Gone {
				continue
			}
			want := Ask
			switch {
			case s.Kind == Deleted && h.Gone:
				want = Keep
			case s.Kind == Listed && !h.Gone && s.Bytes == Untied:
				want = Fetch
			case s.Kind != Deleted && s.Kind != Absent && h.Member && s.Bytes == Same && !h.Due:
				want = Confirm
			}
			if d, _ := Decide(s, h); d != want {
				t.Errorf("%+v of %+v: %s, not %s", s, h, d, want)
			}
		}
	}
}

func TestNoConfirmationOfBytesThatNothingTies(t *testing.T) {
	for s := range statements {
		for h := range holdings {
			if d, _ := Decide(s, h); d == Confirm && (s.Bytes != Same || h.Due || s.Old || s.Kind == Absent || s.Kind == Deleted) {
				t.Errorf("%+v of %+v: %s", s, h, d)
			}
		}
	}
}

func TestDocuments(t *testing.T) {
	a := Applied{Listed: at(5), Changed: at(7)}
	for _, c := range []struct {
		what string
		old  bool
		got  bool
	}{
		{"a list as new as all that was applied", false, Snapshot{At: at(7)}.Old(a)},
		{"a list from before the latest change", true, Snapshot{At: at(6)}.Old(a)},
		{"the same list with the changes since", false, Snapshot{At: at(5), Then: Span{From: at(4), Latest: at(7)}}.Old(a)},
		{"with changes that begin after it", true, Snapshot{At: at(5), Then: Span{From: at(6), Latest: at(9)}}.Old(a)},
		{"with changes that end before others that were applied", true, Snapshot{At: at(5), Then: Span{From: at(4), Latest: at(6)}}.Old(a)},
		{"with changes that go on from what was applied", false, Snapshot{At: at(5), Then: Span{From: at(4), Goes: true}}.Old(a)},
		{"an older list with all changes up to what was applied", false, Snapshot{At: at(1), Then: Span{From: at(1), Latest: at(7)}}.Old(a)},
		{"an older list whose changes end before the newer one", true, Snapshot{At: at(1), Then: Span{From: at(1), Latest: at(4)}}.Old(Applied{Listed: at(5), Changed: at(4)})},
		{"the same list, of an idle Source", false, Snapshot{At: at(5), Then: Span{From: at(1), Latest: at(4)}}.Old(Applied{Listed: at(5), Changed: at(4)})},
		{"changes up to the latest", false, Span{From: at(1), Latest: at(7)}.Old(a)},
		{"changes that end earlier", true, Span{From: at(1), Latest: at(6)}.Old(a)},
		{"an empty Change List that begins later", false, Span{From: at(8)}.Old(a)},
		{"an empty one that begins earlier", true, Span{From: at(6)}.Old(a)},
		{"one that goes on", false, Span{From: at(1), Latest: at(6), Goes: true}.Old(a)},
		{"changes that end earlier, one of them at a time unknown", false, Span{From: at(1), Latest: at(6), Until: at(7)}.Old(a)},
		{"and one that can only be earlier", true, Span{From: at(1), Latest: at(6), Until: at(6)}.Old(a)},
	} {
		if c.got != c.old {
			t.Errorf("%s: old %t", c.what, c.got)
		}
	}
	if a.UpTo(at(6)).Changed != at(6) || a.UpTo(at(8)) != a {
		t.Error("UpTo")
	}
	if (Span{From: at(6)}).Since(at(5)) || !(Span{From: at(5)}).Since(at(5)) || (Span{}).Since(at(5)) {
		t.Error("Since")
	}
	if now := at(100); ToCome(now.Add(skew), now) || !ToCome(now.Add(skew+1), now) {
		t.Error("ToCome")
	}
}

func TestTimesThatAreStillToCome(t *testing.T) {
	now := at(100)
	soon, far := now.Add(skew), now.Add(skew+1)
	for _, c := range []struct {
		what     string
		t, sent  time.Time
		misdated bool
	}{
		{"past", at(5), time.Time{}, false},
		{"near enough", soon, time.Time{}, false},
		{"to come, and when the document was sent is unknown", far, time.Time{}, true},
		{"to come by our clock alone", far, far, false},
		{"to come by the clock of the Source alone", at(90), at(90).Add(-2 * skew), false},
		{"to come by both", far, now, true},
	} {
		if got := Misdated(c.t, c.sent, now); got != c.misdated {
			t.Errorf("%s: misdated %t", c.what, got)
		}
		if got := Placed(c.t, c.sent, now); got.IsZero() != c.misdated || !c.misdated && got != c.t {
			t.Errorf("%s: placed %s", c.what, got)
		}
	}
	if Later(at(1), at(2)) != at(2) || Later(at(2), at(1)) != at(2) {
		t.Error("Later")
	}
}
