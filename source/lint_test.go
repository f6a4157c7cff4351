package source

import (
	"bytes"
	"strings"
	"testing"

	"instep/blob"
	"instep/lint"
)

// TestPublishedDocumentsAreCleanForTheLinter: in no edition that they are meant for is
// there an error or a warning.
func TestPublishedDocumentsAreCleanForTheLinter(t *testing.T) {
	s := newSite(t)
	for _, next := range story(s) {
		s.publish(next())
		for _, key := range keysOf(t, s.bucket) {
			if strings.HasSuffix(key, ".xml") || key == wellKnownKey {
				lintDocument(t, s.bucket, key)
			}
		}
	}
}

func lintDocument(t *testing.T, b blob.Bucket, key string) {
	t.Helper()
	var opts []lint.Option
	if strings.Contains(key, "sitemap") {
		opts = []lint.Option{lint.WithKind(lint.KindSitemap)}
	}
	text, err := blob.ReadAll(t.Context(), b, key, 100<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []lint.Profile{lint.Profile11, lint.ProfileAuto} {
		c := lint.Checker{Profile: p, Derived: true, Report: func(f lint.Finding) {
			if f.Level > lint.Info {
				t.Errorf("%s in profile %s: %+v", key, p, f)
			}
		}}
		d, err := c.Document(t.Context(), key, bytes.NewReader(text), opts...)
		if err != nil || !d.Complete {
			t.Errorf("%s: %+v, %v", key, d, err)
		}
	}
}
