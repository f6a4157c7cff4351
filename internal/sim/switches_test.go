package sim

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"instep/resourcesync"
)

const (
	description    = ".well-known/resourcesync"
	capabilityList = "resourcesync/capabilitylist.xml"
	resourceIndex  = "resourcesync/resourcelist.xml"
	firstChanges   = "resourcesync/changes/1.xml"
	changeIndex    = "resourcesync/changelist-index.xml"
	aResource      = "RESOURCE"
	aPart          = "PART" // of the Resource List
	aDump          = "resourcesync/dumps/1/resourcedump.xml"
	aManifest      = "resourcesync/dumps/1/00001-manifest.xml"
)

// shown is what one sees of a switch in one answer.
type shown struct {
	path    string
	headers []string
	has     string // a regular expression that the answer matches, and that of a Source without the switch does not
	lacks   string // one that only the latter matches
}

// at is shown by an answer that matches.
func at(path, has string, headers ...string) shown {
	return shown{path: path, has: has, headers: headers}
}

func without(path, lacks string) shown { return shown{path: path, lacks: lacks} }

// shows tells for each switch how it is seen: status line, headers and body.
var shows = map[string]shown{
	"1":  at(aPart, `<sm:urlset .*<sm:url><sm:loc>`),
	"2":  at(aPart, `rs/terms"`),
	"3":  at(aPart, `xmlns:rs="http://www.openarchives.org/rs/"><rs:md capability="resourcelist" modified=.*rel="top"`),
	"4":  at(aPart, `modified="[^>]*><rs:ln rel="resourcesync"`),
	"5":  at(changeIndex, `<urlset (.|\n)*<url><loc>[^<]*</loc>.*<rs:md[^>]*capability="changelist"`),
	"6":  at(aPart, `rel="next" href="[^"]*page=2"`),
	"7":  at(aPart, `</urlset><\?xml`),
	"8":  at(aPart, `<url><rs:md[^>]*><lastmod>.*<loc>`),
	"9":  at(aPart, `<\?xml-stylesheet(.|\n)*xsi:schemaLocation=`),
	"10": at(aPart, "encoding=\"ISO-8859-1\"\\?><!-- caf. -->"),
	"11": at(aPart, `\n\n\n  <\?xml`),
	"12": at(aPart, "\n\n\x1f."),
	"13": at(aPart, `Content-Type: text/html`),
	"14": at("sourcedescription.xml", `^200 OK`),
	"15": at("", `rel="resourcesync" href="[^"]*description.xml"`),
	"16": at("robots.txt", `SITEMAP: .*\nsitemap:`),
	"17": at(capabilityList, `capability="resourceList"`),
	"18": at(capabilityList, `changelist-notification`),
	"19": at(capabilityList, `capability="resourcelist"(.|\n)*capability="resourcelist"`),
	"20": at(capabilityList, `<url><loc>[^<]*</loc></url>`),
	"21": at(capabilityList, `/package.zip</loc><rs:md capability="resourcedump"`),
	"22": at(firstChanges, `\.tar\.xz</loc><rs:md type="application/x-xz"/>`),
	"23": at(capabilityList, `/oai\?verb=Identify</loc><rs:md capability="resourcelist"/>`),
	"24": without(aPart, `rel="up"`),
	"25": at(aPart, `<rs:ln hash="describedby" href="about.html"/>`),
	"26": at(capabilityList, `rel="Up"`),
	"27": at(aPart, `rel="self".*dcterms:conformsTo`),
	"28": at(aPart, `capability="resourcelist" from=`),
	"29": without(firstChanges, `datetime=`),
	"30": at(aPart, `<lastmod>\d{4}-\d\d-\d\d</lastmod>`),
	"31": at(aPart, `at="\d{4}-\d\d-\d\d [\d:.]+"`),
	"32": at(aPart, `at="2026-03-01T14:00`),
	"33": at(aPart, `(<lastmod>2026-03-01T12:00:10.000001Z</lastmod>(.|\n)*){3}`),
	"37": without(firstChanges, `change="deleted"`),
	"38": at(firstChanges, `\?gone</loc>[^>]*change="deleted"`),
	"39": at(aPart, `<loc>&#xA;  http[^<]*&#xA;</loc>`),
	"40": at(aPart, `/get\?path=r/`),
	"41": at(aPart, `/café r/`),
	"42": at(capabilityList, `<loc>/resourcesync`),
	"43": at(aResource, `^302(.|\n)*Location: http://localhost:`),
	"44": at(aPart, `/\.\./\.\./climbed-1</loc>(.|\n)*a\\\.\.\\`),
	"46": at(aPart, `hash="SHA256:[0-9A-F]{64}"`),
	"47": at(aPart, `hash="sha-256:[A-Za-z0-9+/]{43}="`),
	"49": at(aPart, `hash="" length=""`),
	"50": without(aPart, `HASH`),
	"51": at(aResource, "Content-Encoding: gzip(.|\n)*\n\n\x1f."),
	"58": at(aDump, `<loc>file:///var/dumps/resourcesync/`),
	"59": at(aResource, `^(401|403|404|429|500) `),
	"60": at(aResource, `Last-Modified: \d{4}-\d\d-\d\dT`),

	"index-loop":       at(resourceIndex, `<sitemap><loc>[^<]*/resourcelist.xml</loc></sitemap></sitemapindex>`),
	"up-circle":        at(description, `rel="up" href="[^"]*capabilitylist.xml"`),
	"fan-out":          at(resourceIndex, `\?part=50000</loc>`),
	"soft-404":         at("nothing/here", `^200 OK(.|\n)*text/html`),
	"robots-bomb":      at("robots.txt", `Content-Length: 83886`),
	"private-address":  at(aPart, `http://169\.254\.169\.254/`),
	"foreign-host":     at(aPart, `<loc>http://elsewhere\.example\.org/r/`),
	"mixed-parts":      at("PART2", `at="2026-02-28T12:00:00.000001Z"`),
	"set-vanishes":     without(description, `<url>`),
	"moved-list":       at(capabilityList, `^301 (.|\n)*Location: http://elsewhere\.example\.org/`),
	"cut-document":     without(aPart, `</urlset>`),
	"doctype":          at(aPart, `<!DOCTYPE urlset`),
	"gzip-bomb":        at(aPart, "Content-Length: 2\\d{5}\n(.|\n)*\n\n\x1f."),
	"wrong-capability": at(firstChanges, `capability="resourcelist" at=`),
	"short-list":       without(aPart, `</url><url>`),
	"empty-list":       without(aPart, `<url>`),
	"file-uri":         at(aPart, `<loc>file:///`),
	"no-times":         without(firstChanges, `datetime=|lastmod`),
	"missing-until":    without(firstChanges, `until=`),
	"mass-delete":      without(firstChanges, `change="(created|updated)"`),
	"wrong-hash":       without(aPart, `HASH`),
	"wrong-length":     without(aPart, `HASH" length="LENGTH"`),
	"one-wrong-hash":   at(aPart, `HASH md5:0{32}"`),
	"odd-hashes":       at(aPart, `hash="blake9:00ff&#xA;sha-256:HASH"`),
	"unknown-hash":     at(aPart, `hash="blake9:00ff" length`),
	"no-hash":          without(aPart, `HASH|length="LENGTH"`),
	"header-bomb":      at(aResource, `X-Bomb: x{1000}`),
	"redirect-loop":    at(aResource, `^302 (.|\n)*Location: /r/`),
	"redirect-chain":   at(aResource, `^302 (.|\n)*Location: /r/.*\?hop=1`),
	"redirect-file":    at(aResource, `^302 (.|\n)*Location: file:///`),
	"redirect-private": at(aResource, `^302 (.|\n)*Location: http://169\.254`),
	"redirect-host":    at(aResource, `^302 (.|\n)*Location: http://elsewhere\.example\.org/r/`),
	"gzip-lie":         at(aResource, "Content-Encoding: gzip\n(.|\n)*\n\n[a-p]{8}"),
	"wrong-range":      at(aResource, `^206 (.|\n)*Content-Range: bytes 101-`, "Range", "bytes=100-"),
	"ignore-range":     at(aResource, `^200 `, "Range", "bytes=100-"),
	"lying-304":        at(aResource, `^304 `, "If-None-Match", `"another"`),
	"etag-lies":        at(aResource, `Etag: "always"`),
	"http-401":         at(aResource, `^401 (.|\n)*Www-Authenticate`),
	"http-403":         at(aResource, `^403 `),
	"http-404":         at(aResource, `^404 `),
	"http-410":         at(aResource, `^410 `),
	"http-429":         at(aResource, `^429 (.|\n)*Retry-After: 1\n`),
	"http-500":         at(aResource, `^500 `),
	"http-503":         at(aResource, `^503 (.|\n)*Retry-After: 1\n`),
	"retry-never":      at(aResource, `^503 (.|\n)*Retry-After: 946080000\n`),
	"error-page":       at(aResource, `^200 (.|\n)*<title>Error`),
	"bot-wall":         at(capabilityList, `^200 (.|\n)*no robot`),
	"longer":           at(aResource, `[a-p]!$`),

	"lists-404":           at(aPart, `^404 `),
	"changes-404":         at(firstChanges, `^404 `),
	"indexes-404":         at(resourceIndex, `^404 `),
	"dumps-404":           at(aDump, `^404 `),
	"lists-500":           at(aPart, `^500 `),
	"changes-500":         at(firstChanges, `^500 `),
	"indexes-500":         at(resourceIndex, `^500 `),
	"dumps-500":           at(aDump, `^500 `),
	"lists-unlisted":      without(capabilityList, `capability="resourcelist"`),
	"changes-unlisted":    without(capabilityList, `capability="changelist"`),
	"dumps-unlisted":      without(capabilityList, `capability="(resource|change)dump"`),
	"profile-1.0":         at(firstChanges, `<lastmod>2026-03-01[^<]*</lastmod><rs:md change="deleted"/>`),
	"old-deletions":       at(firstChanges, `<lastmod>2026-02[^<]*</lastmod><rs:md change="deleted"/>`),
	"no-digests":          without(aPart, `hash=`),
	"no-lengths":          without(aPart, `length=`),
	"manifest-no-digests": without(aManifest, `hash=`),
	"lacks-part":          without(resourceIndex, `resourcelist-00003\.xml`),
	"list-lacks-until":    without(firstChanges, `until=`),
	"no-date":             without(aResource, `\nDate: `),
}

// all turns a switch on for all that it can hit.
func all(sw *Switch) Switched { return Switched{sw, 1} }

// place fills in what depends on the site.
func (s *site) place(text string) string {
	part := ""
	if strings.Contains(text, aPart) {
		part = strings.TrimPrefix(s.list(), s.url)
	}
	return strings.NewReplacer("PART2", strings.Replace(part, "-00001", "-00002", 1), aPart, part, aResource, s.res.Path,
		"HASH", fmt.Sprintf("%x", s.res.SHA256), "LENGTH", fmt.Sprint(s.res.Length)).Replace(text)
}

// list is the first part of the first Resource List.
func (s *site) list() string { return s.url + "resourcesync/lists/1/resourcelist-00001.xml" }

// between is what indents documents.
var between = regexp.MustCompile(`>\s*\n\s*<`)

func TestSwitchesShow(t *testing.T) {
	clean := newSite(t)
	for _, sw := range Switches() {
		show, ok := shows[sw.Name]
		if !ok {
			continue
		}
		t.Run(sw.Name, func(t *testing.T) {
			s := newSite(t, all(sw))
			for _, of := range []struct {
				site *site
				want bool
			}{{s, true}, {clean, false}} {
				got := between.ReplaceAllString(of.site.get(of.site.place(show.path), show.headers...), "><")
				if show.has != "" && regexp.MustCompile(of.site.place(show.has)).MatchString(got) != of.want {
					t.Errorf("with the switch %v: matching %q is %v:\n%.3000s", of.want, show.has, !of.want, got)
				}
				if show.lacks != "" && regexp.MustCompile(of.site.place(show.lacks)).MatchString(got) == of.want {
					t.Errorf("with the switch %v: matching %q is %v:\n%.3000s", of.want, show.lacks, of.want, got)
				}
			}
		})
	}
}

// one turns on one switch.
func one(t *testing.T, name string) Switched {
	t.Helper()
	for _, sw := range Switches() {
		if sw.Name == name {
			return all(sw)
		}
	}
	t.Fatalf("there is no switch %q", name)
	return Switched{}
}

func TestNamesInTheQueryAndBeyondASCIILeadToTheBytes(t *testing.T) {
	for name, path := range map[string]string{"40": "get?path=", "41": "caf%C3%A9%20"} {
		s := newSite(t, one(t, name))
		if got := s.ask(path + s.res.Path); got.StatusCode != http.StatusOK || got.ContentLength != s.res.Length {
			t.Errorf("quirk %s: got %s and %d bytes, want 200 and %d", name, got.Status, got.ContentLength, s.res.Length)
		}
	}
	s := newSite(t, one(t, "44"))
	for _, path := range climbing {
		if got := s.body(strings.ReplaceAll(path, `\`, "%5C")); got != climbed {
			t.Errorf("quirk 44: %q: got %q, want %q", path, got, climbed)
		}
	}
	s = newSite(t, one(t, "14"))
	if got := s.ask(description).StatusCode; got != http.StatusNotFound {
		t.Errorf("quirk 14: the well-known URI: got %d, want 404", got)
	}
	s = newSite(t, one(t, "23"))
	if got := s.body("oai?verb=Identify"); !strings.Contains(got, "<OAI-PMH") {
		t.Errorf("quirk 23: got %q", got)
	}
	s = newSite(t, one(t, "21"))
	if m, err := unpack([]byte(s.body(oddPackageName))); err != nil || len(m) != 1 || m[0].name != manifestName {
		t.Errorf("quirk 21: got %v, %v; want a package with a manifest", m, err)
	}
}

func TestPagesMakeUpTheList(t *testing.T) {
	clean, s := newSite(t), newSite(t, one(t, "6"))
	var got []string
	for page := range 3 {
		for _, en := range s.entries(fmt.Sprintf("%s?page=%d", s.place(aPart), page+1)) {
			got = append(got, strings.TrimPrefix(en.Loc, s.url))
		}
	}
	var want []string
	for _, en := range clean.entries(clean.place(aPart)) {
		want = append(want, strings.TrimPrefix(en.Loc, clean.url))
	}
	if !slices.Equal(got, want) {
		t.Errorf("three pages: got %q, want %q", got, want)
	}
}

func TestEntriesAreThereTwice(t *testing.T) {
	clean, s := newSite(t), newSite(t, one(t, "45"))
	if got, want := len(s.entries(s.place(aPart))), 2*len(clean.entries(clean.place(aPart))); got != want {
		t.Errorf("entries: got %d, want %d", got, want)
	}
}

func TestChangeListsAreDisturbed(t *testing.T) {
	clean := newSite(t)
	want := clean.entries(firstChanges)
	order := func(all []resourcesync.Entry) (down, up, same int) {
		for i := range all[1:] {
			switch a, b := all[i].Datetime, all[i+1].Datetime; {
			case b.Before(a):
				down++
			case a.Before(b):
				up++
			default:
				same++
			}
		}
		return down, up, same
	}
	n := len(want)
	for name, ok := range map[string]func(got []resourcesync.Entry) bool{
		"34":        func(got []resourcesync.Entry) bool { _, up, same := order(got); return len(got) == n && up+same == 0 },
		"35":        func(got []resourcesync.Entry) bool { return len(got) == 10 && got[9].Datetime == want[n-1].Datetime },
		"gap":       func(got []resourcesync.Entry) bool { return len(got) == n-n/2 },
		"shortened": func(got []resourcesync.Entry) bool { return len(got) == n-1 },
		"reordered": func(got []resourcesync.Entry) bool {
			down, up, _ := order(got)
			return len(got) == n && down > 0 && up > 0
		},
		"shuffled": func(got []resourcesync.Entry) bool {
			down, up, _ := order(got)
			return len(got) == n && down > 0 && up > 0
		},
		"clock-back":  func(got []resourcesync.Entry) bool { down, _, _ := order(got); return len(got) == n && down == 1 },
		"equal-times": func(got []resourcesync.Entry) bool { _, _, same := order(got); return same == n-1 },
	} {
		s := newSite(t, one(t, name))
		if got := s.entries(firstChanges); !ok(got) {
			t.Errorf("%s: got %d entries in an order of (down, up, same) %v", name, len(got), fmt.Sprint(order(got)))
		}
		if ok(want) {
			t.Errorf("%s: a Source without it is taken for one with it", name)
		}
	}
}

func TestDocumentsStayAsTheyWere(t *testing.T) {
	for name, until := range map[string]int{"36": 5, "rollback": 100} {
		s := newSite(t, one(t, name))
		last, _, err := s.journal.Last(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		lastChanges := fmt.Sprintf("resourcesync/changes/%d.xml", last.ChangesNumber)
		first := s.body(lastChanges)
		changed := 0
		for i := 1; i <= 10; i++ {
			if _, err := s.Round(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			if s.body(lastChanges) != first && changed == 0 {
				changed = i
			}
		}
		if want := until; changed != want && !(want > 10 && changed == 0) {
			t.Errorf("%s: the document changed in round %d, want %d", name, changed, want)
		}
	}
}

func TestVersionsAreMixedUp(t *testing.T) {
	for name, by := range map[string]int{"newer-bytes": 1, "older-bytes": -1} {
		s := newSite(t, one(t, name))
		v := s.o.Model.Version(s.res, uint32(int(s.res.Version)+by))
		want, err := io.ReadAll(v.Open())
		if err != nil || s.body(s.res.Path) != string(want) {
			t.Errorf("%s: got other bytes than those of version %d (%v)", name, v.Version, err)
		}
	}
	s := newSite(t, one(t, "range-change"))
	v := s.o.Model.Version(s.res, s.res.Version+1)
	want, err := io.ReadAll(v.Open())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.body(s.res.Path, "Range", "bytes=100-", "If-Range", s.ask(s.res.Path).Header.Get("ETag")); got != string(want[100:]) {
		t.Error("range-change: got other bytes than those of the next version")
	}
	s = newSite(t, one(t, "wrong-bytes"))
	right, err := io.ReadAll(s.res.Open())
	if err != nil {
		t.Fatal(err)
	}
	right[0] ^= 1
	if got := s.body(s.res.Path); got != string(right) {
		t.Error("wrong-bytes: got something else than the bytes with one bit flipped")
	}
}

func TestBodiesAreCut(t *testing.T) {
	for name, want := range map[string]struct {
		ends   bool // without an error
		length bool // Content-Length is given
	}{"truncate": {false, true}, "reset": {false, true}, "close-cut": {true, false}, "short-length": {true, true}} {
		s := newSite(t, one(t, name))
		resp := s.ask(s.res.Path)
		body, err := io.ReadAll(resp.Body)
		if int64(len(body)) > s.res.Length/2 || (err == nil) != want.ends || (resp.ContentLength >= 0) != want.length {
			t.Errorf("%s: got %d of %d bytes, Content-Length %d, %v", name, len(body), s.res.Length, resp.ContentLength, err)
		}
	}
}

func TestAnswersComeWithoutEnd(t *testing.T) {
	s := newSite(t, one(t, "endless"))
	resp := s.ask(s.res.Path)
	if n, err := io.CopyN(io.Discard, resp.Body, 4<<20); err != nil {
		t.Errorf("endless: got %d bytes, then %v", n, err)
	}
}

// What hangs ends when its client goes: until then there is nothing, or half.
func TestAnswersStall(t *testing.T) {
	for name, half := range map[string]bool{"stall-header": false, "stall": true} {
		s := newSite(t, one(t, name))
		conn := &http.Transport{DisableKeepAlives: true}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+s.res.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		conn.ResponseHeaderTimeout = 200 * time.Millisecond
		resp, err := conn.RoundTrip(req)
		if !half {
			if err == nil {
				resp.Body.Close()
				t.Errorf("%s: got %s, want nothing", name, resp.Status)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.CopyN(io.Discard, resp.Body, s.res.Length/2); err != nil {
			t.Errorf("%s: got %d bytes, then %v; want half", name, n, err)
		}
		resp.Body.Close()
	}
}

// counted is a ResponseWriter that counts.
type counted struct {
	header http.Header
	n      int
}

func (c *counted) Header() http.Header { return c.header }
func (c *counted) WriteHeader(int)     {}
func (c *counted) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

func TestAnswersAreSlow(t *testing.T) {
	for name, want := range map[string]time.Duration{"slow": 5 * time.Second, "drip": 500 * time.Second} {
		on := one(t, name)
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, Config{Resources: 1, Size: Size{Kind: Fixed, Low: 500}})
			s := &Source{o: Options{Model: m, BaseURL: "http://sim.example.org/", Switches: []Switched{on}}, sets: []published{{}}}
			if err := s.wire.open(s); err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.o.BaseURL+pathOf(0), nil)
			if err != nil {
				t.Fatal(err)
			}
			out := &counted{header: http.Header{}}
			begin := time.Now()
			s.ServeHTTP(out, req)
			if took := time.Since(begin); took != want || out.n != 500 {
				t.Errorf("%s: got %d bytes in %v, want 500 in %v", name, out.n, took, want)
			}
		})
	}
}

func TestRedirectsComeToAnEnd(t *testing.T) {
	s := newSite(t, one(t, "redirect-chain"))
	path := s.res.Path
	for hops := 0; ; hops++ {
		resp := s.ask(path)
		if resp.StatusCode == http.StatusOK {
			if hops != 10 {
				t.Errorf("redirects: got %d, want 10", hops)
			}
			return
		}
		if resp.StatusCode != http.StatusFound || hops > 20 {
			t.Fatalf("hop %d: got %s", hops, resp.Status)
		}
		path = strings.TrimPrefix(resp.Header.Get("Location"), "/")
	}
}

// seen are the switches that tests of their own show.
var seen = []string{
	"34", "35", "36", "45", "52", "53", "54", "55", "57", "rollback", "gap", "shortened", "reordered", "clock-back", "equal-times", "wrong-bytes",
	"newer-bytes", "older-bytes", "range-change", "stall-header", "stall", "slow", "drip", "endless", "truncate", "close-cut",
	"short-length", "reset", "shuffled", "half-list", "lacks-next", "short-manifest", "cached-capabilities", "cached-indexes",
	"cached-lists", "cached-changes", "cached-dumps", "hard-caches", "clock-seconds-behind", "clock-hour-behind", "clock-year-behind",
	"clock-seconds-ahead", "clock-hour-ahead", "clock-year-ahead", "clock-9999", "zip-slip", "zip-bomb", "zip-twice", "zip-lacks-member", "zip-cut",
}

func TestEverySwitchIsShownAndDescribed(t *testing.T) {
	known := map[string]bool{}
	for _, sw := range Switches() {
		if known[sw.Name] {
			t.Errorf("two switches are called %q", sw.Name)
		}
		known[sw.Name] = true
		if _, ok := shows[sw.Name]; ok == slices.Contains(seen, sw.Name) {
			t.Errorf("switch %q: expected one test that shows it", sw.Name)
		}
		if sw.Says == "" || sw.Share <= 0 || sw.Share > 1 || sw.Of == "" || sw.Of == Always && sw.Share != 1 {
			t.Errorf("switch %q: says %q, share %g of %q", sw.Name, sw.Says, sw.Share, sw.Of)
		}
	}
	for n := 1; n <= 60; n++ {
		name := fmt.Sprint(n)
		if _, not := notSimulated[name]; known[name] == not {
			t.Errorf("quirk %d: expected a switch, or why there is none", n)
		}
	}
}

func TestSharesAreKept(t *testing.T) {
	on, err := ParseFaults("http-500=10%, wrong-hash=30%,truncate,short-list")
	if err != nil {
		t.Fatal(err)
	}
	if on[2].Share != 0.05 || on[3].Share != 1 {
		t.Errorf("shares that are not given: got %g and %g, want 0.05 and 1", on[2].Share, on[3].Share)
	}
	s := newSite(t, on[:2]...)
	hit, spoiled := 0, 0
	for range 1000 {
		if on[0].hits(s.wire.begin(&http.Request{URL: &url.URL{Path: "/"}})) {
			hit++
		}
	}
	for i := range 1000 {
		if on[1].affects(fmt.Sprint("http://sim.example.org/", i)) {
			spoiled++
		}
	}
	if hit < 60 || hit > 140 || spoiled < 250 || spoiled > 350 {
		t.Errorf("of a thousand: got %d answers and %d entries, want about 100 and 300", hit, spoiled)
	}
}

func TestSwitchesThatAreNoneAreRefused(t *testing.T) {
	for _, list := range []string{"61", "01", "1=5%", "x", "59=0%", "59=101%", "59=5", "59="} {
		if _, err := ParseQuirks(list); err == nil {
			t.Errorf("quirks %q: got no error", list)
		}
	}
	for _, list := range []string{"1", "truncate=", "truncate=-1%", "truncate=NaN%", "short-list=50%"} {
		if _, err := ParseFaults(list); err == nil {
			t.Errorf("faults %q: got no error", list)
		}
	}
	if on, err := ParseQuirks(" 1, ,59=7%"); err != nil || len(on) != 2 || on[1].Share != 0.07 {
		t.Errorf("got %v, %v", on, err)
	}
}
