package discover_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"instep/discover"
)

func TestNoticesAreBounded(t *testing.T) {
	const lists, entries = 30, 200
	s := site{}
	var sets []string
	for i := range lists {
		uri := fmt.Sprintf("example.org/%d/caps.xml", i)
		sets = append(sets, "capabilitylist> http://"+uri)
		lines := []string{"resourcelist> http://example.org/list.xml"}
		for j := range entries {
			lines = append(lines, fmt.Sprintf("%s> http://example.org/x%d", strings.Repeat("z", 5000), j))
		}
		s[uri] = doc("capabilitylist", lines...)
	}
	s[wellKnown] = doc("description", sets...)
	src, err := serve(t, s).find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	if len(src.Sets) != lists {
		t.Errorf("sets: got %d, want %d", len(src.Sets), lists)
	}
	if len(src.Notices) != 1001 {
		t.Fatalf("notices: got %d, want 1,000 and one for the rest", len(src.Notices))
	}
	for i, n := range src.Notices {
		if len(n.Msg) > 1100 {
			t.Fatalf("notice %d has %d bytes", i, len(n.Msg))
		}
	}
	var rest int
	if _, err := fmt.Sscanf(src.Notices[1000].Msg, "%d more notices", &rest); err != nil || rest < lists*entries-1000 {
		t.Errorf("last notice: got %q, want at least %d more", src.Notices[1000].Msg, lists*entries-1000)
	}
}

func TestNamesKeptAreBounded(t *testing.T) {
	const lists, entries = 10, 1000
	s := site{}
	var sets []string
	long := strings.Repeat("x", 8000)
	lines := make([]string, entries)
	for j := range lines {
		lines[j] = fmt.Sprintf("resourcelist> http://example.org/%s%d", long, j)
	}
	body := doc("capabilitylist", lines...)
	for i := range lists {
		uri := fmt.Sprintf("example.org/%d/caps.xml", i)
		sets = append(sets, "capabilitylist> http://"+uri)
		s[uri] = body
	}
	s[wellKnown] = doc("description", sets...)
	src, err := serve(t, s).find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	kept, failed := 0, 0
	for _, set := range src.Sets {
		if set.Err != nil {
			failed++
		}
		for _, uri := range set.ResourceLists {
			kept += len(uri)
		}
	}
	if failed == 0 || failed == lists || kept > 64<<20 {
		t.Errorf("%d of %d sets failed, %d bytes of URIs kept; want some, and 64 MiB at most", failed, lists, kept)
	}
}

func TestPlainSitemapsTakeNoRoom(t *testing.T) {
	long := strings.Repeat("x", 8000)
	lines := make([]string, 1000)
	for j := range lines {
		lines[j] = fmt.Sprintf("> http://example.org/%s%d", long, j)
	}
	s := site{wellKnown: doc("description", "capabilitylist> http://example.org/caps.xml")}
	names := []string{"resourcelist> http://example.org/list.xml"}
	for i := range 12 {
		s[fmt.Sprintf("example.org/%d.xml", i)] = doc("plain", lines...)
		names = append(names, fmt.Sprintf("> http://example.org/%d.xml", i))
	}
	s["example.org/caps.xml"] = doc("capabilitylist", names...)
	src, err := serve(t, s).find(t, "http://example.org/")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range src.Notices {
		if strings.Contains(n.Msg, "MiB allowed") {
			t.Error(n.Msg)
		}
	}
}

func TestWhyASourceDescriptionLeadsNowhere(t *testing.T) {
	tests := map[string]struct {
		lines []string
		want  string
	}{
		"nothing":     {nil, "names no Capability List"},
		"foreign":     {[]string{"resourcelist> http://example.org/a", "capabilitylist> http://files.example.net/caps.xml"}, `"http://files.example.net/caps.xml" is on another origin`},
		"other kinds": {[]string{"resourcelist> http://example.org/a"}, `capability "resourcelist" has no place`},
		"unusable":    {[]string{"capabilitylist> http://example.org/a&#10;b"}, "control character"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, site{wellKnown: doc("description", tt.lines...)}).find(t, "http://example.org/")
			var de *discover.Error
			if !errors.As(err, &de) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
