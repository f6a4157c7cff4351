package catalog_test

import (
	"path/filepath"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/internal/catalog/catalogtest"
)

// inSQLite makes an empty catalog.
func inSQLite(t *testing.T, now func() time.Time) catalogtest.Stores {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	var last *catalog.Catalog
	var open func() catalogtest.Stores
	open = func() catalogtest.Stores {
		if last != nil {
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
		}
		c, err := catalog.Open(t.Context(), catalog.Options{Path: path, Create: true, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		last = c
		return catalogtest.Stores{Facts: c.Facts, Mirror: c.Mirror, Publisher: c.Publisher, Reopen: open}
	}
	t.Cleanup(func() {
		if err := last.Close(); err != nil {
			t.Error(err)
		}
	})
	return open()
}

func TestFactsKeepTheirContract(t *testing.T)    { catalogtest.RunFacts(t, inSQLite) }
func TestMirrorKeepsItsContract(t *testing.T)    { catalogtest.RunMirror(t, inSQLite) }
func TestPublisherKeepsItsContract(t *testing.T) { catalogtest.RunPublisher(t, inSQLite) }
