package scan

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Only what is asked for is looked at, and only members there can be gone.
func TestPathsRestrictAScan(t *testing.T) {
	for _, test := range []struct {
		name                      string
		paths                     []string
		created, updated, deleted int64
		want                      []string
	}{
		{"none", []string{}, 0, 0, 0, []string{}},
		{"a file", []string{"d/changed"}, 0, 1, 0, []string{"updated d/changed"}},
		{"a new file", []string{"d/new"}, 1, 0, 0, []string{"created d/new"}},
		{"a file that is gone", []string{"d/gone"}, 0, 0, 1, []string{"deleted d/gone"}},
		{"what never was", []string{"d/never", "never"}, 0, 0, 0, []string{}},
		{"a hidden file", []string{".hidden", "d/.hidden", ".dir/x"}, 0, 0, 0, []string{}},
		{"a directory", []string{"d"}, 1, 1, 1, []string{"created d/new", "deleted d/gone", "updated d/changed"}},
		{"a directory that is gone", []string{"e"}, 0, 0, 2, []string{"deleted e/1", "deleted e/f/2"}},
		{"a directory, and what is in it", []string{"d/changed", "d", "d/new"}, 1, 1, 1,
			[]string{"created d/new", "deleted d/gone", "updated d/changed"}},
		{"a file and a directory that is gone", []string{"d/gone", "e/f"}, 0, 0, 2, []string{"deleted d/gone", "deleted e/f/2"}},
		{"all", []string{"x", "."}, 2, 2, 4,
			[]string{"created d/new", "created x/new", "deleted d/gone", "deleted e/1", "deleted e/f/2", "deleted gone", "updated changed", "updated d/changed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := setUp(t, "changed", "gone", "same", "d/changed", "d/gone", "d/same", "e/1", "e/f/2", "eaves/x")
			f.scan()
			f.write("changed", "2")
			f.write("d/changed", "2")
			f.write("d/new", "1")
			f.write("x/new", "1")
			f.write("d/.hidden", "1")
			f.write(".dir/x", "1")
			f.remove("gone", "d/gone", "e")
			f.MaxDelete = everything(t)
			f.Paths = test.paths
			r := f.scan()
			if r.Created != test.created || r.Updated != test.updated || r.Deleted != test.deleted {
				t.Errorf("result %+v; want %d created, %d updated, %d deleted", r, test.created, test.updated, test.deleted)
			}
			got := f.log(9)
			slices.Sort(got)
			same(t, "changes", got, test.want)
			f.Paths = nil // the rest is found by a scan of all
			rest := f.scan()
			same(t, "changes of both", int(r.Created+r.Updated+r.Deleted+rest.Created+rest.Updated+rest.Deleted), 8)
		})
	}
}

func TestGuardHoldsWithPaths(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("d%d/f%d", i/50, i))
	}
	f := setUp(t, many...)
	f.scan()
	f.remove("d0")
	f.Paths = []string{"d0"}
	var refused *GuardError
	if _, err := f.Apply(t.Context(), f.plan()); !errors.As(err, &refused) || refused.Deletes != 50 || refused.Set != 100 {
		t.Errorf("Apply = %v; want a GuardError for 50 of 100", err)
	}
}
