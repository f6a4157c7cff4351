package source

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"path"
	"strings"
	"testing"

	"instep/blob"
	"instep/lint"
)

// TestPublishedDocumentsAreCleanForTheLinter: in no edition that they are meant for is
// there an error or a warning, from the first publication on.
func TestPublishedDocumentsAreCleanForTheLinter(t *testing.T) {
	for name, c := range map[string]struct {
		tell     func(*site) []func() Update
		policy   Policy
		profiles []lint.Profile
	}{
		"plain":           {story, Policy{}, []lint.Profile{lint.Profile11, lint.ProfileAuto}},
		"everything":      {fullStory, Policy{}, []lint.Profile{lint.Profile11, lint.ProfileAuto}},
		"readers of 1.0":  {fullStory, Policy{Profile10: true}, []lint.Profile{lint.Profile11, lint.Profile10}},
		"readers of one":  {withFixed(fullStory), Policy{}, []lint.Profile{lint.Profile11, lint.ProfileAuto}},
		"readers of both": {fullStory, Policy{ProfileBoth: true}, []lint.Profile{lint.Profile11, lint.ProfileAuto}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			kinds, seen := map[string]bool{}, map[string]string{}
			for _, next := range c.tell(s) {
				u := next()
				u.Policy.Profile10, u.Policy.ProfileBoth = c.policy.Profile10, c.policy.ProfileBoth
				s.publish(u)
				for _, key := range keysOf(t, s.bucket) {
					if text := string(bytesOf(t, s.bucket, key)); seen[key] != text {
						lintFile(t, key, []byte(text), c.profiles, kinds)
						seen[key] = text
					}
				}
			}
			if name != "plain" {
				checkKinds(t, kinds)
			}
		})
	}
}

// checkKinds: there was every kind of document that a Source has.
func checkKinds(t *testing.T, kinds map[string]bool) {
	t.Helper()
	for _, kind := range []string{
		"description", "capabilitylist", "resourcelist", "resourcelist-index", "changelist", "changelist-index",
		"resourcedump", "resourcedump-manifest", "changedump", "changedump-index", "changedump-manifest",
		"resourcelist-archive", "resourcelist-archive-index", "resourcedump-archive", "resourcedump-archive-index",
		"changelist-archive", "changelist-archive-index", "changedump-archive", "changedump-archive-index",
	} {
		if !kinds[kind] {
			t.Errorf("no document of kind %q was checked", kind)
		}
	}
}

func lintFile(t *testing.T, key string, text []byte, profiles []lint.Profile, kinds map[string]bool) {
	t.Helper()
	switch path.Ext(key) {
	case ".zip":
		archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := fs.ReadFile(archive, "manifest.xml")
		if err != nil {
			t.Fatal(err)
		}
		lintText(t, key, manifest, profiles, kinds)
	case ".xml", "":
		lintText(t, key, text, profiles, kinds)
	}
}

// lintDocument lints a document as readers of 1.1 get it.
func lintDocument(t *testing.T, b blob.Bucket, key string) {
	t.Helper()
	lintText(t, key, bytesOf(t, b, key), []lint.Profile{lint.Profile11, lint.ProfileAuto}, map[string]bool{})
}

func lintText(t *testing.T, key string, text []byte, profiles []lint.Profile, kinds map[string]bool) {
	t.Helper()
	var opts []lint.Option
	if strings.Contains(key, "sitemap") {
		opts = []lint.Option{lint.WithKind(lint.KindSitemap)}
	}
	for _, p := range profiles {
		c := lint.Checker{Profile: p, Derived: true, Report: func(f lint.Finding) {
			if f.Level > lint.Info {
				t.Errorf("%s in profile %s: %+v", key, p, f)
			}
		}}
		d, err := c.Document(t.Context(), key, bytes.NewReader(text), opts...)
		if err != nil || !d.Complete {
			t.Errorf("%s: %+v, %v", key, d, err)
		}
		kinds[d.Kind] = true
	}
}
