package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/mattn/go-isatty"

	"instep/destination"
)

// progressBar shows how far a command is: a bar on a terminal with the last error below
// it, elsewhere one line a minute.
type progressBar struct {
	name string
	out  *output
	now  func() time.Time

	mu        sync.Mutex // guards the counts
	count     int64
	bytes     int64
	total     int64
	errors    int64
	begin     time.Time
	lastError string

	pw      progress.Writer // nil off a terminal
	tracker *progress.Tracker
	end     chan struct{} // closed by stop
	idle    sync.WaitGroup
	once    sync.Once
}

// aMinute is how often a line is written off a terminal.
const aMinute = time.Minute

// newProgress starts showing progress until stop.
func (a *app) newProgress(name string) *progressBar {
	p := &progressBar{name: name, out: a.out, now: a.now, begin: a.now(), end: make(chan struct{})}
	if a.out.quiet || a.out.json {
		return p
	}
	if !a.out.verbose && isTerminal(a.stderr) {
		p.bar(a.stderr)
		return p
	}
	p.idle.Go(p.everyMinute)
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
}

// bar draws a bar until stop. Messages go above it while it is there.
func (p *progressBar) bar(w io.Writer) {
	p.tracker = &progress.Tracker{Message: p.name, Units: progress.Units{Formatter: humanize.Comma}}
	p.pw = progress.NewWriter()
	p.pw.SetOutputWriter(w)
	style := progress.StyleDefault // without colours: nothing for NO_COLOR to turn off
	style.Options.PercentIndeterminate = ""
	style.Options.TimeInProgressPrecision = time.Second
	p.pw.SetStyle(style)
	p.pw.Style().Visibility.ETA = true
	p.pw.SetUpdateFrequency(200 * time.Millisecond)
	p.pw.AppendTracker(p.tracker)
	p.out.setLog(func(text string) { p.pw.Log("%s", text) })
	p.idle.Go(p.pw.Render)
}

func (p *progressBar) everyMinute() {
	t := time.NewTicker(aMinute)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.out.say("%s", p.line())
		case <-p.end:
			return
		}
	}
}

// line is the progress in one line.
func (p *progressBar) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprintf("%s %s %d", p.now().UTC().Format(time.RFC3339), p.name, p.count)
	if p.total > 0 {
		s += fmt.Sprintf("/%d %d%%", p.total, p.count*100/p.total)
	}
	if took := p.now().Sub(p.begin).Seconds(); took > 0 {
		s += fmt.Sprintf(" %.0f/s %s/s", float64(p.count)/took, humanize.Bytes(uint64(float64(p.bytes)/took)))
	}
	return s + fmt.Sprintf(" errors=%d", p.errors)
}

// start says how much there is to do.
func (p *progressBar) start(plan *destination.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range plan.Sets {
		p.total += s.Created + s.Updated
		if !s.Withheld {
			p.total += s.Deleted
		}
	}
	if p.tracker != nil {
		p.tracker.UpdateTotal(p.total)
	}
}

// done counts one resource of n bytes.
func (p *progressBar) done(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	p.bytes += n
	if p.tracker != nil {
		p.tracker.SetValue(p.count)
	}
}

// failed counts one failure and shows it.
func (p *progressBar) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors++
	p.lastError = printable(err.Error())
	if p.pw != nil {
		p.pw.SetPinnedMessages(fmt.Sprintf("%d errors, last: %s", p.errors, p.lastError))
	}
}

// stop ends the showing; further calls do nothing.
func (p *progressBar) stop() {
	p.once.Do(func() {
		close(p.end)
		if p.pw != nil {
			p.pw.Stop()
		}
		p.idle.Wait()
		p.out.setLog(nil)
	})
}
