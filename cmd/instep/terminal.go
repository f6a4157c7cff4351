package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/mattn/go-runewidth"
)

// statusLine is redrawn at the bottom of a terminal. All other lines are written above it.
type statusLine struct {
	w     io.Writer
	width func() int
	shown int // number of columns written
}

// show replaces the text of the status line. It overwrites a longer text with spaces, because
// escape sequences do not work on every terminal.
func (s *statusLine) show(text string) {
	columns := runewidth.StringWidth(text)
	fmt.Fprint(s.w, "\r"+text+strings.Repeat(" ", max(s.shown-columns, 0)))
	s.shown = columns
}

func (s *statusLine) clear() {
	if s == nil || s.shown == 0 {
		return
	}
	s.show("")
	fmt.Fprint(s.w, "\r")
}

func (o *output) setStatus(line *statusLine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bar.clear()
	o.bar = line
}

func (o *output) status(text func(columns int) string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bar != nil {
		o.bar.show(text(o.bar.width()))
	}
}

// hasColour respects NO_COLOR (https://no-color.org).
func hasColour(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && os.Getenv("NO_COLOR") == "" && (runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != "")
}

// Colours as SGR parameters of ISO 6429.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
)

var lineColours = []struct{ begin, colour string }{
	{"instep:", red}, {"  hint:", cyan}, {"  next:", cyan},
	{"  error ", red}, {"  warning ", yellow}, {"    fix:", cyan},
	{"+ ", green}, {"~ ", yellow}, {"- ", red}, {"* ", red}, {"! ", red}, {"? ", yellow},
	{"write   ", green}, {"retire  ", red},
}

var statusColours = map[string]string{
	"IN SYNC": green, "PUBLISHED": green, "CLEAN": green, "CONVERTED": green, "RESTORED": green, "PLAN": bold,
	"PARTIAL": yellow, "INTERRUPTED": yellow,
	"NOT IN SYNC": red, "FINDINGS": red, "REFUSED": red, "FAILED": red,
}

// coloured requires a text without escape sequences.
func coloured(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = colouredLine(line)
	}
	return strings.Join(lines, "\n")
}

func colouredLine(line string) string {
	if rest, ok := strings.CutPrefix(line, "Status: "); ok {
		word, counts, found := strings.Cut(rest, " (")
		if colour := statusColours[word]; found && colour != "" {
			return "Status: " + paint(word, colour) + " (" + counts
		}
		return line
	}
	for _, c := range lineColours {
		if rest, ok := strings.CutPrefix(line, c.begin); ok {
			return paint(c.begin, c.colour) + rest
		}
	}
	return line
}

func paint(text, colour string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }
