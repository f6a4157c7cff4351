//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// fuzzAnswer is a document on its way to who asked.
type fuzzAnswer struct {
	status int
	body   []byte
	media  string    // "": as it was
	was    []byte    // the document as it was at first; nil: it was not
	now    time.Time // by the clock of the Source
	rng    *rand.Rand
	base   string
}

// fuzzQuirk is one thing that real Sources do; the number is that of docs/quirks.md. do
// changes the answer, and reports whether it could.
type fuzzQuirk struct {
	name string
	do   func(a *fuzzAnswer) bool
}

const (
	anyTime  = `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?`
	anyEntry = `(?s)<((?:sm:)?(?:url|sitemap))>.*?</(?:sm:)?(?:url|sitemap)>`
)

// fuzzQuirks are drawn with the same chance each.
var fuzzQuirks = slices.Concat(fuzzDocuments, fuzzHeaders, fuzzTimes, fuzzEntries, fuzzURIs, fuzzAnswers)

// fuzzDocuments do something to a document as a whole.
var fuzzDocuments = []fuzzQuirk{
	swap("prefix for sitemap (1)", `^(?s)(.*?)<(urlset|sitemapindex) xmlns=(.*)$`, "", func(a *fuzzAnswer, _ []string) string {
		text := regexp.MustCompile(`<(/?)(urlset|sitemapindex|url|sitemap|loc|lastmod|changefreq)\b`).ReplaceAllString(string(a.body), "<${1}sm:$2")
		return strings.Replace(text, " xmlns=", " xmlns:sm=", 1)
	}),
	swap("namespace without slash (2)", `openarchives\.org/rs/terms/`, "openarchives.org/rs/terms", nil),
	swap("namespace before 1.0 (3)", `openarchives\.org/rs/terms/`, "openarchives.org/rs/", nil),
	swap("a namespace of nobody", `openarchives\.org/rs/terms/`, "example.org/terms/", nil),
	swap("another sitemap namespace", `sitemaps\.org/schemas/sitemap/0\.9`, "google.com/schemas/sitemap/0.84", nil),
	{"two documents in one (7)", func(a *fuzzAnswer) bool { a.body = append(bytes.Clone(a.body), a.body...); return true }},
	swap("stylesheet (9)", `\?>\n?`, "$0<?xml-stylesheet type=\"text/xsl\" href=\"/sitemap.xsl\"?>\n", nil),
	swap("encoding US-ASCII (10)", `encoding="UTF-8"`, `encoding="US-ASCII"`, nil),
	swap("encoding ISO-8859-1 (10)", `encoding="UTF-8"`, `encoding="ISO-8859-1"`, nil),
	{"line before the declaration (11)", func(a *fuzzAnswer) bool { a.body = append([]byte("\n"), a.body...); return true }},
	{"byte order mark", func(a *fuzzAnswer) bool { a.body = append([]byte("\xef\xbb\xbf"), a.body...); return true }},
	{"gzip without a word (12)", func(a *fuzzAnswer) bool {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(a.body)
		_ = z.Close()
		a.body = b.Bytes()
		return true
	}},
	swap("DOCTYPE", `\?>\n?`, "$0<!DOCTYPE urlset>\n", nil),
	swap("comment", `<(?:sm:)?(?:url|sitemap)>`, "<!-- <url><loc>x</loc></url> -->$0", nil),
	swap("comment in loc", `<((?:sm:)?loc)>`, "<$1><!-- here -->", nil),
	swap("text between elements", `<(?:sm:)?(?:url|sitemap)>`, "and then $0", nil),
	swap("CDATA in loc", `<((?:sm:)?loc)>\s*(http[^<]*?)\s*<`, "<$1><![CDATA[$2]]><", nil),
	swap("another element", `<(?:sm:)?loc>`, "<news xmlns=\"http://example.org/news\"><loc>x</loc></news>$0", nil),
	{"cut off", func(a *fuzzAnswer) bool {
		a.body = a.body[:len(a.body)-1-a.rng.IntN(len(a.body)*9/10)]
		return true
	}},
	{"cut off after an entry", func(a *fuzzAnswer) bool {
		all := regexp.MustCompile(anyEntry).FindAllIndex(a.body, -1)
		if len(all) > 0 {
			a.body = a.body[:all[a.rng.IntN(len(all))][1]]
		}
		return len(all) > 0
	}},
	{"empty", func(a *fuzzAnswer) bool { a.body = nil; return true }},
	{"reversed (34)", func(a *fuzzAnswer) bool { return a.reorder(slices.Reverse) }},
	{"shuffled", func(a *fuzzAnswer) bool {
		return a.reorder(func(all [][]byte) { a.rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] }) })
	}},
}

// fuzzHeaders do something to what a document says of itself.
var fuzzHeaders = []fuzzQuirk{
	swap("another capability", ` capability="[^"]*"`, "", func(a *fuzzAnswer, _ []string) string {
		return ` capability="` + []string{"resourcelist", "changelist", "resourcedump", "changedump", "capabilitylist", "description", "resourcedump-manifest"}[a.rng.IntN(7)] + `"`
	}),
	swap("capability in capitals (17)", ` capability="([^"]*)"`, "", func(_ *fuzzAnswer, m []string) string { return ` capability="` + strings.ToUpper(m[1]) + `"` }),
	swap("unknown capability (18)", ` capability="[^"]*"`, ` capability="changelistindex"`, nil),
	swap("no capability (20)", ` capability="[^"]*"`, "", nil),
	swap("no rs:md (20)", `<rs:md [^>]*>`, "", nil),
	swap("rs:md twice", `<rs:md [^>]*>`, "$0$0", nil),
	swap("rs:md twice, apart", `<rs:md ([a-z]+="[^"]*") ([^>]*)/>`, "<rs:md $1/><rs:md $2/>", nil),
	swap("rs:md twice, of other values", `<rs:md ([^>]*(?:at|from|until|datetime|length)="[^>]*)>`, "", func(a *fuzzAnswer, m []string) string {
		return m[0] + regexp.MustCompile(`="\d`).ReplaceAllString(m[0], `="1`)
	}),
	swap("rs:md last", `(?s)^(.*<(?:urlset|sitemapindex|sm:urlset)[^>]*>)(.*?)(<rs:md [^>]*>)(.*)(</[^>]*>\s*)$`, "$1$2$4$3$5", nil),
	swap("no rel (25)", `(<rs:ln [^>]*?)rel="[^"]*" ?`, "$1", nil),
	swap("rel as hash (25)", `(<rs:ln [^>]*?)rel="`, `${1}hash="`, nil),
	swap("rel in capitals (26)", ` rel="([^"]*)"`, "", func(_ *fuzzAnswer, m []string) string { return ` rel="` + strings.ToUpper(m[1]) + `"` }),
	swap("no link", `<rs:ln [^>]*>`, "", nil),
	swap("up to somewhere else (24)", `rel="up" href="[^"]*"`, `rel="up" href="http://127.0.0.1:9/up.xml"`, nil),
	swap("next to itself (6)", `(<(?:urlset|sitemapindex|sm:urlset)[^>]*>)`, "", func(a *fuzzAnswer, m []string) string { return m[1] + rsLN("next", "") }),
	swap("prev", `(<(?:urlset|sitemapindex|sm:urlset)[^>]*>)`, "$1"+`<rs:ln rel="prev" href="?page=0"/>`, nil),
	swap("no at (28)", ` at="[^"]*"`, "", nil),
	swap("at is empty", ` at="[^"]*"`, ` at=""`, nil),
	swap("at for from", ` from="([^"]*)"`, ` at="$1"`, nil),
	swap("from for at (28)", ` at="([^"]*)"`, ` from="$1"`, nil),
	swap("at where it does not belong (28)", `<rs:md capability="(changelist|capabilitylist|description)"`, "", func(a *fuzzAnswer, m []string) string {
		return m[0] + ` at="` + w3c(foreignStart.Add(48*time.Hour)) + `"`
	}),
	swap("no from", ` from="[^"]*"`, "", nil),
	swap("no until", ` until="[^"]*"`, "", nil),
	swap("until now (35)", ` from="[^"]*"`, "", func(a *fuzzAnswer, m []string) string { return m[0] + ` until="` + w3c(a.now) + `"` }),
	swap("from slides on (35)", ` from="(`+anyTime+`)"`, "", func(a *fuzzAnswer, m []string) string { return ` from="` + shifted(m[1], 90*time.Minute) + `"` }),
	swap("at is later", ` at="(`+anyTime+`)"`, "", func(a *fuzzAnswer, m []string) string { return ` at="` + shifted(m[1], 48*time.Hour) + `"` }),
	swap("at is earlier", ` at="(`+anyTime+`)"`, "", func(a *fuzzAnswer, m []string) string { return ` at="` + shifted(m[1], -30*time.Minute) + `"` }),
}

// fuzzTimes write one time, or all, in another way.
var fuzzTimes = []fuzzQuirk{
	swap("no zone (31)", `(\d\d:\d\d(?:\.\d+)?)(?:Z|\+00:00)`, "$1", nil),
	swap("to the day (30)", anyTime, "", func(_ *fuzzAnswer, m []string) string { return m[0][:10] }),
	swap("to the month (30)", anyTime, "", func(_ *fuzzAnswer, m []string) string { return m[0][:7] }),
	swap("to the year (30)", anyTime, "", func(_ *fuzzAnswer, m []string) string { return m[0][:4] }),
	swap("a blank for T (31)", `(\d)T(\d\d:)`, "$1 $2", nil),
	swap("+00:00 (31)", `(:\d\d(?:\.\d+)?)Z`, "$1+00:00", nil),
	swap("microseconds without a zone (31)", `(:\d\d)Z`, "$1.000000", nil),
	swap("no time at all", anyTime, "unknown", nil),
	swap("lastmod is now (33)", `(<(?:sm:)?lastmod>)[^<]*`, "", func(a *fuzzAnswer, m []string) string { return m[1] + w3c(a.now) }),
	swap("lastmod by a clock that is ahead", `(<(?:sm:)?lastmod>)[^<]*`, "", func(a *fuzzAnswer, m []string) string { return m[1] + w3c(a.ahead()) }),
	swap("datetime by a clock that is ahead", ` datetime="[^"]*"`, "", func(a *fuzzAnswer, _ []string) string { return ` datetime="` + w3c(a.ahead()) + `"` }),
	swap("no lastmod", `<((?:sm:)?lastmod)>[^<]*</(?:sm:)?lastmod>`, "", nil),
	swap("a lastmod of 1970", `(<(?:sm:)?lastmod>)[^<]*`, "${1}1970-01-01T00:00:00Z", nil),
	{"all without a zone (31)", func(a *fuzzAnswer) bool { return a.all(`(\d\d:\d\d(?:\.\d+)?)(?:Z|\+00:00)`, "$1") }},
	{"all to the day (30)", func(a *fuzzAnswer) bool {
		return a.all(`(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?`, "$1")
	}},
	{"all of another zone", func(a *fuzzAnswer) bool {
		return a.times(func(t time.Time) string { return t.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano) })
	}},
	{"local time called Z (32)", func(a *fuzzAnswer) bool {
		return a.times(func(t time.Time) string { return w3c(t.Add(9 * time.Hour)) })
	}},
	{"no lastmod in all", func(a *fuzzAnswer) bool { return a.all(`<(?:sm:)?lastmod>[^<]*</(?:sm:)?lastmod>`, "") }},
	{"lastmod is now in all (33)", func(a *fuzzAnswer) bool { return a.all(`(<(?:sm:)?lastmod>)[^<]*`, "${1}"+w3c(a.now)) }},
	{"lastmod by a clock that is ahead in all", func(a *fuzzAnswer) bool { return a.all(`(<(?:sm:)?lastmod>)[^<]*`, "${1}"+w3c(a.ahead())) }},
	{"no datetime in all (29)", func(a *fuzzAnswer) bool { return a.all(` datetime="[^"]*"`, "") }},
}

// fuzzEntries do something to one entry.
var fuzzEntries = []fuzzQuirk{
	swap("wrong length", ` length="(\d+)"`, ` length="1$1"`, nil),
	swap("no length", ` length="\d+"`, "", nil),
	swap("empty length (49)", ` length="\d+"`, ` length=""`, nil),
	swap("wrong digest (50)", ` hash="((?:md5|sha-256|SHA256):)[0-9a-fA-F]{2}`, ` hash="${1}00`, nil),
	swap("no digest", ` hash="[^"]*"`, "", nil),
	swap("empty digest (49)", ` hash="[^"]*"`, ` hash=""`, nil),
	swap("digest in capitals (46)", ` hash="([^"]*)"`, "", func(_ *fuzzAnswer, m []string) string { return ` hash="` + strings.ToUpper(m[1]) + `"` }),
	swap("digest in base64 (47)", ` hash="(md5|sha-256):([0-9a-f]*)"`, "", func(_ *fuzzAnswer, m []string) string {
		b, _ := hex.DecodeString(m[2])
		return ` hash="` + m[1] + ":" + base64.StdEncoding.EncodeToString(b) + `"`
	}),
	swap("an unknown digest too (48)", ` hash="([^"]*)"`, ` hash="crc32:00000000 $1"`, nil),
	swap("listed twice (45)", anyEntry, "$0\n$0", nil),
	swap("listed twice, of other digests (45)", anyEntry, "", func(_ *fuzzAnswer, m []string) string {
		return m[0] + regexp.MustCompile(`:[0-9a-fA-F]{2}([0-9a-fA-F]{20})`).ReplaceAllString(m[0], ":00$1")
	}),
	swap("left out", anyEntry, "", nil),
	swap("an entry without loc", `<((?:sm:)?loc)>[^<]*</(?:sm:)?loc>`, "", nil),
	swap("no change (22)", ` change="[^"]*"`, "", nil),
	swap("change in capitals", ` change="([^"]*)"`, "", func(_ *fuzzAnswer, m []string) string { return ` change="` + strings.ToUpper(m[1]) + `"` }),
	swap("unknown change", ` change="[^"]*"`, ` change="moved"`, nil),
	swap("created for updated", ` change="(?:updated|created)"`, "", func(a *fuzzAnswer, m []string) string {
		return ` change="` + []string{"created", "updated"}[a.rng.IntN(2)] + `"`
	}),
	swap("a change in a Resource List", `(</(?:sm:)?loc>.*?<rs:md )(hash)`, `${1}change="updated" $2`, nil),
	swap("deletion without a time (29)", `(change="deleted"[^>]*) (?:datetime|at)="[^"]*"`, "$1", nil),
	swap("deletion without lastmod (29)", `<(?:sm:)?lastmod>[^<]*</(?:sm:)?lastmod>(<rs:md [^>]*change="deleted")`, "$1", nil),
	swap("deletion of the old time (37)", `<(?:sm:)?lastmod>[^<]*</(?:sm:)?lastmod>(<rs:md [^>]*change="deleted")`, "<lastmod>2026-02-01T00:00:00Z</lastmod>$1", nil),
	swap("no type", ` type="[^"]*"`, "", nil),
}

// fuzzURIs spell a URI in another way.
var fuzzURIs = []fuzzQuirk{
	swap("line breaks around loc (39)", `<((?:sm:)?loc)>([^<]*)<`, "<$1>\n    $2\n  <", nil),
	swap("percent-encoded", `([0-9a-z])(\.xml|/qdc|\.csv|)(</(?:sm:)?loc>)`, "", func(_ *fuzzAnswer, m []string) string { return fmt.Sprintf("%%%02X%s%s", m[1][0], m[2], m[3]) }),
	swap("encoded twice (41)", `([0-9a-z])(\.xml|/qdc|\.csv|)(</(?:sm:)?loc>)`, "", func(_ *fuzzAnswer, m []string) string { return fmt.Sprintf("%%25%02X%s%s", m[1][0], m[2], m[3]) }),
	swap("not encoded (41)", `([0-9a-z])(\.xml|/qdc|\.csv|)(</(?:sm:)?loc>)`, "$1 é$2$3", nil),
	swap("https (43)", `(<(?:sm:)?loc>\s*)http:`, "${1}https:", nil),
	swap("scheme in capitals", `(<(?:sm:)?loc>\s*)http:`, "${1}HTTP:", nil),
	swap("another host (43)", `(<(?:sm:)?loc>\s*)http://127\.0\.0\.1:`, "${1}http://localhost:", nil),
	swap("relative (42)", `(<(?:sm:)?loc>\s*)http://[^/]*/`, "$1/", nil),
	swap("with a fragment", `(\s*</(?:sm:)?loc>)`, "#part$1", nil),
	swap("dots in the path (44)", `(<(?:sm:)?loc>\s*http://[^/]*/)`, "${1}x/../", nil),
	swap("two slashes", `(<(?:sm:)?loc>\s*http://[^/]*/)`, "$1/", nil),
	swap("a query (40)", `([0-9a-z])(</(?:sm:)?loc>)`, "$1?v=1$2", nil),
}

// fuzzAnswers do something to the answer that the document comes in.
var fuzzAnswers = []fuzzQuirk{
	{"as text/html (13)", func(a *fuzzAnswer) bool { a.media = "text/html; charset=utf-8"; return true }},
	{"as text/plain (13)", func(a *fuzzAnswer) bool { a.media = "text/plain"; return true }},
	{"as octets (13)", func(a *fuzzAnswer) bool { a.media = "application/octet-stream"; return true }},
	{"older copy (36)", func(a *fuzzAnswer) bool {
		if a.was == nil || bytes.Equal(a.was, a.body) {
			return false
		}
		a.body = a.was
		return true
	}},
	{"404", func(a *fuzzAnswer) bool { return a.fails(http.StatusNotFound) }},
	{"403 (59)", func(a *fuzzAnswer) bool { return a.fails(http.StatusForbidden) }},
	{"500", func(a *fuzzAnswer) bool { return a.fails(http.StatusInternalServerError) }},
	{"a page for people", func(a *fuzzAnswer) bool {
		a.media, a.body = "text/html", []byte("<!DOCTYPE html>\n<html><body>Are you a robot?</body></html>\n")
		return true
	}},
}

// swap replaces one place, drawn among all that match: by what with says, else by the text
// of to.
func swap(name, pattern, to string, with func(a *fuzzAnswer, m []string) string) fuzzQuirk {
	re := regexp.MustCompile(pattern)
	return fuzzQuirk{name, func(a *fuzzAnswer) bool {
		all := re.FindAllSubmatchIndex(a.body, -1)
		if len(all) == 0 {
			return false
		}
		at := all[a.rng.IntN(len(all))]
		var by []byte
		if with == nil {
			by = re.Expand(nil, []byte(to), a.body, at)
		} else {
			m := re.FindSubmatch(a.body[at[0]:at[1]])
			texts := make([]string, len(m))
			for i := range m {
				texts[i] = string(m[i])
			}
			by = []byte(with(a, texts))
		}
		a.body = bytes.Join([][]byte{a.body[:at[0]], by, a.body[at[1]:]}, nil)
		return true
	}}
}

// ahead is a time by a clock that is a little or far ahead of that of the Source, and maybe
// right by ours.
func (a *fuzzAnswer) ahead() time.Time {
	return []time.Time{a.now.Add(30 * time.Minute), a.now.Add(48 * time.Hour), a.now.Add(100 * 24 * time.Hour), time.Now()}[a.rng.IntN(4)]
}

func (a *fuzzAnswer) all(pattern, to string) bool {
	re := regexp.MustCompile(pattern)
	if !re.Match(a.body) {
		return false
	}
	a.body = re.ReplaceAll(a.body, []byte(to))
	return true
}

// times writes all times anew.
func (a *fuzzAnswer) times(write func(time.Time) string) bool {
	hit := false
	a.body = regexp.MustCompile(anyTime).ReplaceAllFunc(a.body, func(text []byte) []byte {
		t := told(string(text))
		if t.IsZero() {
			return text
		}
		hit = true
		return []byte(write(t))
	})
	return hit
}

func shifted(text string, by time.Duration) string { return w3c(told(text).Add(by)) }

// reorder changes the order of the entries.
func (a *fuzzAnswer) reorder(order func([][]byte)) bool {
	all := regexp.MustCompile(anyEntry).FindAllIndex(a.body, -1)
	if len(all) < 2 {
		return false
	}
	var entries [][]byte
	for _, at := range all {
		entries = append(entries, a.body[at[0]:at[1]])
	}
	order(entries)
	var b []byte
	end := 0
	for i, at := range all {
		b = append(append(b, a.body[end:at[0]]...), entries[i]...)
		end = at[1]
	}
	a.body = append(b, a.body[end:]...)
	return true
}

func (a *fuzzAnswer) fails(status int) bool {
	a.status, a.media, a.body = status, "text/plain", []byte(http.StatusText(status)+"\n")
	return true
}
