package lint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/lint"
)

// Whatever the profile, and without the rules that the standard only implies.
func TestWhatCannotBeReadIsNeverClean(t *testing.T) {
	const start = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	for name, text := range map[string]string{
		"empty":          "",
		"JSON":           `{"error": "no such list"}`,
		"text":           "Not found",
		"a page":         "<!doctype html><title>Museum</title>",
		"a feed":         `<rss version="2.0"><channel/></rss>`,
		"cut":            start + "<url>",
		"cut in the tag": `<urlset xmlns="http://www.site`,
		"two documents":  start + "</urlset>" + start + "</urlset>",
		"gzip, cut":      gzipped(t, start+"</urlset>")[:40],
	} {
		for _, p := range []lint.Profile{lint.Profile11, lint.Profile10, lint.ProfileArchives, lint.ProfileDLib, lint.ProfileAuto} {
			var got []lint.Level
			c := lint.Checker{Profile: p, Report: func(f lint.Finding) {
				if f.Level == lint.Error {
					got = append(got, f.Level)
				}
			}}
			if _, err := c.Document(t.Context(), name, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(got, []lint.Level{lint.Error}); d != "" {
				t.Errorf("%s in profile %s: levels of the findings (-got +want):\n%s", name, p, d)
			}
		}
	}
}
