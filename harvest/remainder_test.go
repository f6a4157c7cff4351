package harvest

import (
	"strings"
	"testing"

	"instep/internal/spool"
	"instep/resourcesync"
)

// What a plan or a Change List keeps in a temporary file still says that its links are not known,
// so a filter by links does not leave it out.
func TestDroppedRemainderIsDroppedInASpool(t *testing.T) {
	e := &resourcesync.Entry{Loc: "https://example.org/a", Links: []resourcesync.Link{{Rel: "collection", Href: "urn:x:" + strings.Repeat("c", resourcesync.MaxRemainder)}}}
	log := spool.NewLog[Resource](t.TempDir())
	defer log.Close()
	for _, r := range []Remainder{remainderOf(e), {}, NewRemainder(`{"changefreq":"daily"}`)} {
		want := Resource{URI: e.Loc, Preferred: 2, Remainder: r}
		at, err := log.AppendAt(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := log.At(at)
		if err != nil || got.Remainder != want.Remainder || got.Preferred != 2 {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}
