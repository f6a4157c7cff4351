package publish

import (
	"path/filepath"
	"testing"

	"instep/internal/catalog"
	"instep/source"
	"instep/source/sourcetest"
)

func TestJournalInTheCatalog(t *testing.T) {
	sourcetest.RunJournal(t, func(t *testing.T) func() source.Journal {
		o := catalog.Options{Path: filepath.Join(t.TempDir(), "catalog.db"), Create: true}
		var last *catalog.Catalog
		t.Cleanup(func() { _ = last.Close() })
		return func() source.Journal {
			if last != nil {
				if err := last.Close(); err != nil {
					t.Fatal(err)
				}
			}
			c, err := catalog.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			last, o.Create = c, false
			return journal{c.Facts, c.Publisher}
		}
	})
}
