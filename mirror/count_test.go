package mirror

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever batches bring, mark as due and delete, in one set or in several, the counts
// of the sets are those of their members.
func TestCountsAreThoseOfTheMembers(t *testing.T) {
	for _, layout := range []Layout{Tree, Flat} {
		t.Run(string(layout), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { countsAgree(t, rt, layout) })
		})
	}
}

func countsAgree(t *testing.T, rt *rapid.T, layout Layout) {
	o := options(filepath.Join(t.TempDir(), "mirror"))
	o.Layout = layout
	m, ctx := openMirror(t, o), t.Context()
	for step := range rapid.IntRange(1, 5).Draw(rt, "batches") {
		now := noon.Add(time.Duration(step) * time.Minute)
		b, err := m.Begin(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "claims") {
			in := rapid.SampledFrom([]string{set, set2}).Draw(rt, "set")
			name := strconv.Itoa(rapid.IntRange(0, 4).Draw(rt, "name"))
			body := rapid.SampledFrom([]string{"", "one", "other"}).Draw(rt, "body")
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				err = b.Delete(ctx, in, home+"/"+name, time.Time{})
			case 1:
				err = b.Due(ctx, in, wantedOfBody(home+"/"+name, body, now), "not there")
			default:
				err = put(b, in, name, body, now)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		if rapid.IntRange(0, 4).Draw(rt, "dropped") == 0 {
			err = b.Discard()
		} else {
			err = b.Commit(ctx, nil)
		}
		if err != nil {
			rt.Fatal(err)
		}
		wantCounts(rt, m)
	}
	if err := m.Close(); err != nil { // not at the end of all cases
		rt.Fatal(err)
	}
}

func wantCounts(rt *rapid.T, m *Mirror) {
	for _, name := range []string{set, set2} {
		var n, bytes int64
		for h, err := range m.Members(rt.Context(), name) {
			if err != nil {
				rt.Fatal(err)
			}
			if n++; h.Length.Known() {
				bytes += h.Length.Int64()
			}
		}
		id, err := m.setID(rt.Context(), name)
		if err != nil {
			rt.Fatal(err)
		}
		gotN, gotBytes, err := m.facts.Count(rt.Context(), id)
		if err != nil || gotN != n || gotBytes != bytes {
			rt.Fatalf("%s: got %d members of %d bytes, %v; it has %d of %d", name, gotN, gotBytes, err, n, bytes)
		}
	}
}
