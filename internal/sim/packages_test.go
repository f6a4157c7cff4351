package sim

import (
	"archive/zip"
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// packageOf returns the first package of the Resource Dump and its path.
func (s *site) packageOf() (path string, b []byte) {
	s.t.Helper()
	path = strings.TrimPrefix(s.entries(aDump)[0].Loc, s.url)
	return path, []byte(s.body(path))
}

func names(t *testing.T, b []byte) (all []string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		t.Fatal(err)
	}
	for _, f := range r.File {
		all = append(all, f.Name)
	}
	return all
}

func TestPackagesAreDisturbed(t *testing.T) {
	clean := newSite(t)
	_, b := clean.packageOf()
	want := names(t, b)
	n := len(want)
	for name, ok := range map[string]func(got []string) bool{
		"52": func(got []string) bool { return got[n-1] == manifestName && strings.HasPrefix(got[0], "/") },
		"55": func(got []string) bool {
			return !slices.Contains(got, manifestName) && slices.Contains(got, "extra.tsv")
		},
		"zip-slip": func(got []string) bool {
			return slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "../../") })
		},
		"zip-bomb":         func(got []string) bool { return slices.Contains(got, "bomb") },
		"zip-twice":        func(got []string) bool { return len(got) == 2*n },
		"zip-lacks-member": func(got []string) bool { return len(got) == n-1 },
	} {
		s := newSite(t, one(t, name))
		_, b := s.packageOf()
		if got := names(t, b); !ok(got) {
			t.Errorf("%s: members: got %q", name, got)
		}
		if s.entries(aDump)[0].Length.Known() {
			t.Errorf("%s: the length of a package that is changed is given", name)
		}
		if ok(want) {
			t.Errorf("%s: a Source without it is taken for one with it", name)
		}
	}
	s := newSite(t, one(t, "zip-cut"))
	_, cut := s.packageOf()
	if d := len(cut) - len(b)/2; d < -64 || d > 64 { // the port of the server and the time make a few bytes
		t.Errorf("zip-cut: got %d bytes, want about %d", len(cut), len(b)/2)
	}
}

func TestManifestsAreDisturbed(t *testing.T) {
	manifest := func(s *site) (inside, beside string) {
		path, b := s.packageOf()
		members, err := unpack(b)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(members, func(m member) bool { return m.name == manifestName })
		return string(members[i].data), s.body(strings.TrimSuffix(path, ".zip") + "-manifest.xml")
	}
	clean := newSite(t)
	if inside, beside := manifest(clean); inside != beside || !strings.Contains(inside, `path="/`) {
		t.Fatalf("a Source without switches: the manifests differ, or have no path:\n%s\n%s", inside, beside)
	}
	if inside, beside := manifest(newSite(t, one(t, "53"))); strings.Contains(inside+beside, `path="/`) || inside != beside {
		t.Errorf("53: got\n%s\n%s", inside, beside)
	}
	if inside, beside := manifest(newSite(t, one(t, "54"))); strings.Count(inside, "<url>") != strings.Count(beside, "<url>")+1 {
		t.Errorf("54: got\n%s\n%s", inside, beside)
	}
	s := newSite(t, one(t, "57"))
	var changed string
	for info, err := range s.o.Bucket.List(t.Context(), "resourcesync/changedumps/") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(info.Key, "-manifest.xml") {
			changed = info.Key
		}
	}
	if got := s.body(changed); !strings.Contains(got, "<url>") || strings.Contains(got, "change=") {
		t.Errorf("57: got\n%s", got)
	}
	if got := clean.body(changed); !strings.Contains(got, "change=") {
		t.Errorf("57: a Source without it: got\n%s", got)
	}
}
