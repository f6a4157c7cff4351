package catalog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"instep/resourcesync"
)

// TestCat_STA_04 damages a catalog in every page: it is refused, or every row
// that it still gives out is a right one. It is never changed by being read.
func TestCat_STA_04(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	var changes []Change
	for i := range 300 {
		changes = append(changes, change(t, resourcesync.Created, "dir/"+strconv.Itoa(i), strconv.Itoa(i)))
	}
	record(t, c, s, changes...)
	want := map[string]bool{}
	for _, ch := range changes {
		want[ch.URI+" "+ch.Digests.String()] = true
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("Check of a sound catalog = %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	random := rand.New(rand.NewPCG(1, 2))
	detected := 0
	for off := 0; off < len(sound); off += page {
		damaged := bytes.Clone(sound)
		for i := range damaged[off : off+page] {
			damaged[off+i] = byte(random.Uint32())
		}
		path := filepath.Join(t.TempDir(), "catalog.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		err := readAll(t, path, s, want)
		if err == nil {
			continue // an index or a page that is not in use
		}
		detected++
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("page %d: %v, want ErrDamaged with the name of the file", off/page, err)
		}
	}
	if detected == 0 {
		t.Error("no damage was detected")
	}
}

func readAll(t *testing.T, path string, s SetID, want map[string]bool) error {
	c, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		return err
	}
	defer c.Close()
	for r, err := range c.Facts.Members(t.Context(), s) {
		if err != nil {
			return err
		}
		if !want[r.URI+" "+r.Digests.String()] {
			t.Errorf("a damaged catalog gave out %+v", r)
		}
	}
	return c.Check(t.Context())
}

func TestRowsThatContradictThemselvesAreDamage(t *testing.T) {
	for _, test := range []struct{ name, sql, says string }{
		{"another URI", "UPDATE resource SET rest = 'other'", "https://example.org/other"},
		{"digest", "UPDATE resource SET digests = 'sha-256:12'", "digests"},
		{"lastmod", "UPDATE member SET lastmod = 'yesterday'", "lastmod"},
		{"floor", "INSERT INTO setting VALUES ('floor', 'x')", `setting "floor"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := open(t)
			s := set(t, c, "")
			record(t, c, s, change(t, resourcesync.Created, "a", "1"))
			if _, err := c.write.Exec(test.sql); err != nil {
				t.Fatal(err)
			}
			var err error
			for _, e := range c.Facts.Members(t.Context(), s) {
				err = errors.Join(err, e)
			}
			if err == nil {
				err = c.Facts.Record(t.Context(), s, []Change{change(t, resourcesync.Updated, "a", "2")})
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("reading = %v, want ErrDamaged that says %q", err, test.says)
			}
		})
	}
}
