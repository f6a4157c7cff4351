package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"instep/destination"
	"instep/internal/webpage"
)

// progressBar shows the progress of a command: on a terminal as a status line, otherwise as a
// line each minute.
type progressBar struct {
	name string
	out  *output
	now  func() time.Time
	net  *traffic // the network traffic of the command; nil if the command reads only files

	mu       sync.Mutex // guards the fields up to rate
	files    int64      // the number of processed files
	total    int64      // the number of files to process; 0 if it is unknown
	bytes    int64      // number of bytes of the processed files; used if net is nil
	size     int64      // the number of bytes of the files to process; 0 if it is unknown
	offset   int64      // the number of network bytes that were transferred before the first file
	errors   int64
	current  []string // the names of the files that are being processed, oldest first
	failure  string   // the text of the last failure
	failedAt time.Time
	rate     rateMeter

	end  chan struct{} // the channel that stop closes; nil if no progress is shown
	idle sync.WaitGroup
	once sync.Once
}

const (
	lineTime   = time.Minute            // the time between two lines if the output is not a terminal
	frameTime  = 200 * time.Millisecond // the time between two updates of the status line on a terminal
	failureFor = 5 * time.Second        // the time for which the last failure is shown
	rateWindow = 15 * time.Second       // the period over which the rate of transfer is averaged
)

// newProgress shows progress until stop is called. For a command that reads only files, net is
// nil.
func (a *app) newProgress(name string, net *traffic) *progressBar {
	p := &progressBar{name: name, out: a.out, now: a.now, net: net}
	if a.out.isQuiet() || a.out.json {
		return p
	}
	p.rate.add(p.now(), 0)
	p.end = make(chan struct{})
	f, ok := terminal(a.stderr)
	if !ok || a.out.verbose {
		p.idle.Go(func() {
			p.repeat(lineTime, func() {
				s := p.currentState()
				p.out.say("%s %s", p.now().UTC().Format(time.RFC3339), s.fullText())
			})
		})
		return p
	}
	p.idle.Go(func() {
		p.out.setStatus(&statusLine{w: f, width: func() int { return widthOf(f) }})
		defer p.out.setStatus(nil)
		p.repeat(frameTime, func() {
			p.out.status(func(columns int) string { s := p.currentState(); return s.lineFor(columns) })
		})
	})
	return p
}

func (p *progressBar) repeat(interval time.Duration, show func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			show()
		case <-p.end:
			return
		}
	}
}

func terminal(w io.Writer) (f *os.File, ok bool) {
	f, ok = w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

func widthOf(f *os.File) int {
	if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

// currentState returns the state to show. It also passes the number of bytes so far to p.rate,
// which computes the average rate from it.
func (p *progressBar) currentState() progressState {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	s := progressState{name: p.name, files: p.files, total: p.total, bytes: p.bytes, size: p.size, errors: p.errors}
	if len(p.current) > 0 {
		s.current = p.current[0]
	}
	if p.net != nil {
		s.bytes = p.net.bytes.Load() - p.offset
		s.current = cmp.Or(s.current, p.net.lastPath())
	}
	if p.failure != "" && now.Sub(p.failedAt) < failureFor {
		s.current = p.failure
	}
	s.rate = p.rate.add(now, s.bytes)
	return s
}

func (p *progressBar) addPlan(plan *destination.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range plan.Sets {
		p.total += s.Created + s.Updated
		p.size += s.Bytes
		if !s.Withheld {
			p.total += s.Deleted
		}
	}
	if p.net != nil {
		p.offset = p.net.bytes.Load()
	}
	p.rate = rateMeter{}
	p.rate.add(p.now(), 0)
}

func (p *progressBar) fileBegun(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = append(p.current, name)
}

func (p *progressBar) fileEnded(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.current, name); i >= 0 {
		p.current = slices.Delete(p.current, i, i+1)
	}
}

// showFile shows the name of the only file that is processed now.
func (p *progressBar) showFile(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = append(p.current[:0], name)
}

func (p *progressBar) countFile(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files++
	p.bytes += n
}

func (p *progressBar) showFailure(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors++
	p.failure, p.failedAt = p.out.redactMessage(text), p.now()
}

// stop may be called several times.
func (p *progressBar) stop() {
	p.once.Do(func() {
		if p.end != nil {
			close(p.end)
		}
		p.idle.Wait()
	})
}

// progressState is a copy of fields of progressBar at one moment.
type progressState struct {
	name         string
	files, total int64
	bytes, size  int64
	errors       int64
	rate         float64 // bytes a second
	current      string
}

// segment is a part of the progress line. If the line is too long, the segment with the highest
// rank is left out first.
type segment struct {
	text string
	rank int
}

func (s *progressState) segments() (list []segment) {
	add := func(rank int, format string, args ...any) {
		list = append(list, segment{fmt.Sprintf(format, args...), rank})
	}
	add(0, "%s", s.name)
	if percent, ok := s.percent(); ok {
		add(1, "%d%%", percent)
	}
	switch {
	case s.size > 0:
		add(2, "%s of %s", humanSize(min(s.bytes, s.size)), humanSize(s.size))
	case s.bytes > 0:
		add(2, "%s", humanSize(s.bytes))
	}
	if s.rate > 0 {
		add(6, "%s/s", humanSize(int64(s.rate)))
	}
	if left, ok := s.remainingTime(); ok {
		add(3, "%s left", left)
	}
	switch {
	case s.total > 0:
		add(5, "%s/%s files", humanize.Comma(s.files), humanize.Comma(s.total))
	case s.files > 0:
		add(5, "%s files", humanize.Comma(s.files))
	}
	if s.errors > 0 {
		add(4, "%s failed", humanize.Comma(s.errors))
	}
	return list
}

// percent returns the share of the bytes if their total is known, otherwise the share of the
// files.
func (s *progressState) percent() (percent int64, ok bool) {
	switch {
	case s.size > 0:
		return min(s.bytes*100/s.size, 100), true
	case s.total > 0:
		return min(s.files*100/s.total, 100), true
	}
	return 0, false
}

func (s *progressState) remainingTime() (text string, ok bool) {
	rest := s.size - s.bytes
	if rest <= 0 || s.rate < 1 {
		return "", false
	}
	seconds := float64(rest) / s.rate
	switch d := time.Duration(min(seconds, 1e8)) * time.Second; {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second), true
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute), true
	case d < 2*24*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour), true
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour)), true
	}
}

const gap = "  "

// lineFor leaves one column of the terminal free, since a full line would wrap.
func (s *progressState) lineFor(columns int) string {
	list := s.segments()
	for room := columns - 1; ; {
		text := joinSegments(list)
		width := runewidth.StringWidth(text)
		if width <= room || len(list) == 1 {
			text = runewidth.Truncate(text, room, "")
			if rest := room - width - len(gap); s.current != "" && rest >= minName {
				text += gap + shortenName(printable(s.current), rest)
			}
			return text
		}
		last := 0
		for i := range list {
			if list[i].rank > list[last].rank {
				last = i
			}
		}
		list = slices.Delete(list, last, last+1)
	}
}

// minName is the smallest number of columns in which a name is shown.
const minName = 8

func (s *progressState) fullText() string {
	text := joinSegments(s.segments())
	if s.current != "" {
		text += gap + printable(s.current)
	}
	return text
}

func joinSegments(list []segment) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = s.text
	}
	return strings.Join(texts, gap)
}

func shortenName(name string, columns int) string {
	if runewidth.StringWidth(name) <= columns {
		return name
	}
	tail := columns / 2
	head := runewidth.Truncate(name, columns-tail, "…")
	runes := []rune(name)
	end := len(runes)
	for width := 0; end > 0; end-- {
		if width += runewidth.RuneWidth(runes[end-1]); width > tail {
			break
		}
	}
	return head + string(runes[end:])
}

func humanSize(n int64) string { return webpage.Size(n) }

type rateMeter struct{ samples []sample }

type sample struct {
	at    time.Time
	bytes int64
}

// add records the number of bytes transferred so far, and returns the average rate in bytes per
// second.
func (r *rateMeter) add(now time.Time, bytes int64) float64 {
	r.samples = append(r.samples, sample{now, bytes})
	for len(r.samples) > 2 && now.Sub(r.samples[0].at) > rateWindow {
		r.samples = r.samples[1:]
	}
	first := r.samples[0]
	seconds := now.Sub(first.at).Seconds()
	if seconds < frameTime.Seconds()/2 || bytes < first.bytes {
		return 0
	}
	return float64(bytes-first.bytes) / seconds
}

func urlPath(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Path == "" {
		return uri
	}
	return strings.TrimPrefix(u.Path, "/")
}
