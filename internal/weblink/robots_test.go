package weblink

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestRobots(t *testing.T) {
	const a, b = "https://example.org/a.xml", "https://example.org/b.xml"
	tests := []struct {
		name, text string
		want       []Sitemap
	}{
		{"several among others", "User-agent: *\nDisallow: /x\n\nSitemap: " + a + "\nSitemap: " + b, []Sitemap{{a, 4, true, "Sitemap: " + a}, {b, 5, true, "Sitemap: " + b}}},
		{"any case, spaces and none", "SITEMAP:" + a + "\n \tsitemap \t: " + b + "  \n", []Sitemap{{a, 1, false, "SITEMAP:" + a}, {b, 2, false, "sitemap \t: " + b}}},
		{"line ends of all kinds", "Sitemap: " + a + "\r\n\rSitemap: " + b + "\r", []Sitemap{{a, 1, true, "Sitemap: " + a}, {b, 3, true, "Sitemap: " + b}}},
		{"mark of the encoding", "\ufeffSitemap: " + a, []Sitemap{{a, 1, true, "Sitemap: " + a}}},
		{"comments", "# Sitemap: " + b + "\nSitemap: " + a + " # Sitemap: " + b, []Sitemap{{a, 2, true, "Sitemap: " + a}}},
		{"relative", "Sitemap: /a.xml", []Sitemap{{"/a.xml", 1, false, "Sitemap: /a.xml"}}},
		{"nothing", "Sitemap:\nSitemap\nSitemaps: " + a + "\nNo-Sitemap: " + a + "\n<html>\n", nil},
		{"empty", "", nil},
	}
	for _, test := range tests {
		got, err := Robots(strings.NewReader(test.text), 1<<10)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if d := cmp.Diff(got, test.want); d != "" {
			t.Errorf("%s (-got +want):\n%s", test.name, d)
		}
	}
}

// What lies beyond the bound is no line, least of all half a URI.
func TestRobotsIsBounded(t *testing.T) {
	const line = "Sitemap: https://example.org/a.xml"
	text := line + "\n" + line + "\n"
	for most := range len(text) + 2 {
		got, err := Robots(strings.NewReader(text), int64(most))
		want := strings.Count(text[:min(most, len(text))], "\n")
		if err != nil || len(got) != want {
			t.Errorf("in %d bytes: got %v, %v; want %d lines", most, got, err, want)
		}
		for _, s := range got {
			if s.URI != "https://example.org/a.xml" {
				t.Errorf("in %d bytes: got %q", most, s.URI)
			}
		}
	}
	trouble := errors.New("disk on fire")
	if _, err := Robots(iotest.ErrReader(trouble), 10); !errors.Is(err, trouble) {
		t.Errorf("got %v, want the error of the reader", err)
	}
}

func FuzzRobots(f *testing.F) {
	f.Add("User-agent: *\nSitemap: https://example.org/a.xml\r\nsitemap:/b # c\n", int64(40))
	f.Fuzz(func(t *testing.T, text string, most int64) {
		most = max(most, 0) % (1 << 20)
		got, err := Robots(strings.NewReader(text), most)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range got {
			if s.Line < 1 || s.URI == "" || strings.ContainsAny(s.URI, "\r\n#") {
				t.Errorf("got %+v", s)
			}
		}
	})
}
