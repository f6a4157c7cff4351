package weblink

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// Sitemap is a Sitemap line of a robots.txt.
type Sitemap struct {
	URI   string // the URI as it is written in the line
	Line  int    // number of the line in the robots.txt, from 1
	Exact bool   // whether the line consists of "Sitemap:", in this spelling, and an absolute URI
	Text  string // the whole line, without comments
}

// Robots reads the Sitemap lines in the first limit bytes of a robots.txt (1.1 §6.3.4).
// If these bytes end within a line, that line is skipped. All errors come from r.
func Robots(r io.Reader, limit int64) ([]Sitemap, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the Sitemap lines: %w", err)
	}
	if int64(len(text)) > limit {
		text = text[:bytes.LastIndexAny(text[:limit], "\r\n")+1]
	}
	var all []Sitemap
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
	line := 0
	for text := range strings.SplitSeq(lines, "\n") {
		line++
		text, _, _ = strings.Cut(text, "#")
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || value == "" || !strings.EqualFold(name, "sitemap") {
			continue
		}
		u, err := url.Parse(value)
		all = append(all, Sitemap{value, line, name == "Sitemap" && err == nil && u.IsAbs(), strings.TrimSpace(text)})
	}
	return all, nil
}
