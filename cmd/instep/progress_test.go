//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
)

// escapes are the sequences by which a program changes colours.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestProgressIsOneLineOfATerminal: at any width the progress stays one line, with bytes,
// percent and the name in work as far as they fit, a failure changes nothing of that, and at
// the end the line is gone.
func TestProgressIsOneLineOfATerminal(t *testing.T) {
	const name = "/photographs/collection-of-the-harbour-museum/1987-06-14-a-ship-leaves-the-harbour.tiff"
	body := strings.Repeat("a ship ", 300_000)
	for _, c := range []struct {
		columns uint16
		want    []string
	}{
		{40, []string{"sync  50%", "1.1 MB of 2.1 MB"}},
		{80, []string{"sync  50%", "1.1 MB of 2.1 MB", "/3 files", "1 failed"}},
		{160, []string{"sync  50%", "1.1 MB of 2.1 MB", "/3 files", "1 failed", "photographs/collection-of-the"}},
	} {
		t.Run(fmt.Sprint(c.columns), func(t *testing.T) {
			h := newHostile(t)
			h.give("/x", "hello")
			seen := make(chan struct{})
			h.replace(name, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				_, _ = io.WriteString(w, body[:len(body)/2])
				w.(http.Flusher).Flush()
				<-seen
				_, _ = io.WriteString(w, body[len(body)/2:])
			})
			h.site(urlset(resourceList, listed(h.URL+"/x", "hello"), listed(h.URL+"/gone", "hello"), listed(h.URL+name, body)))
			cmd := command(t, "sync", h.URL, filepath.Join(t.TempDir(), "m"))
			cmd.Env = append(cmd.Environ(), "TERM=xterm", "NO_COLOR=")
			tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: c.columns})
			if err != nil {
				t.Fatal(err)
			}
			defer tty.Close()
			out, drawn := readUntilSeen(tty, seen, c.want)
			if !drawn {
				t.Errorf("no frame has all of %q", c.want)
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitPartial {
				t.Errorf("exit code %d (%v), want %d", cmd.ProcessState.ExitCode(), err, exitPartial)
			}
			checkScreen(t, out, int(c.columns))
		})
	}
}

// readUntilSeen reads what a terminal shows to its end, and closes seen when one frame has
// all that is wanted, or after a while. drawn reports which.
func readUntilSeen(tty io.Reader, seen chan<- struct{}, want []string) (out string, drawn bool) {
	var all bytes.Buffer
	giveUp := time.AfterFunc(30*time.Second, func() { close(seen) })
	buffer := make([]byte, 4096)
	for waiting := true; ; {
		n, err := tty.Read(buffer)
		all.Write(buffer[:n])
		if waiting && hasFrame(all.String(), want) {
			waiting = false
			if drawn = giveUp.Stop(); drawn {
				close(seen)
			}
		}
		if err != nil {
			return all.String(), drawn // a terminal ends with an error
		}
	}
}

// hasFrame reports whether one drawing of the line has all parts, and is followed by another.
func hasFrame(text string, want []string) bool {
	for _, frame := range strings.Split(text, "\r") {
		missing := false
		for _, part := range want {
			missing = missing || !strings.Contains(frame, part)
		}
		if !missing {
			return true
		}
	}
	return false
}

// checkScreen checks that no drawing of the line wraps, and that nothing of it stays.
func checkScreen(t *testing.T, text string, columns int) {
	t.Helper()
	text = escapes.ReplaceAllString(text, "")
	frames := 0
	for _, line := range strings.Split(strings.TrimSuffix(text, "\r\n"), "\n") {
		parts := strings.Split(strings.TrimSuffix(line, "\r"), "\r")
		for i, part := range parts {
			if !strings.HasPrefix(part, "sync ") {
				continue
			}
			frames++
			if width := runewidth.StringWidth(strings.TrimRight(part, " ")); width >= columns {
				t.Errorf("a frame of %d columns wraps at %d: %q", width, columns, part)
			}
			if i == len(parts)-1 {
				t.Errorf("the line stays on the screen: %q", part)
			}
		}
	}
	if frames == 0 || !strings.Contains(text, "Status: PARTIAL") {
		t.Errorf("want frames of progress and a last line, got %d frames\n%q", frames, text)
	}
}

// TestColourIsForTerminals: a terminal gets colours unless NO_COLOR is set, and a pipe
// never does.
func TestColourIsForTerminals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	for _, c := range []struct {
		env  string
		want bool
	}{{"NO_COLOR=", true}, {"NO_COLOR=1", false}} {
		cmd := command(t, "sync", "nowhere", dir)
		cmd.Env = append(cmd.Environ(), "TERM=xterm", c.env)
		tty, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(tty) // a terminal ends with an error
		_ = tty.Close()
		_ = cmd.Wait()
		if got := strings.Contains(string(text), "\x1b[31m"); got != c.want {
			t.Errorf("%s: colour: got %t, want %t\n%q", c.env, got, c.want, text)
		}
	}
	cmd := command(t, "sync", "nowhere", dir)
	cmd.Env = append(cmd.Environ(), "TERM=xterm")
	if text, _ := cmd.CombinedOutput(); bytes.Contains(text, []byte("\x1b")) {
		t.Errorf("a pipe gets colours: %q", text)
	}
}

// TestProgressLineFitsAnyWidth: what does not fit is left out, the least important first.
func TestProgressLineFitsAnyWidth(t *testing.T) {
	s := progressState{
		name: "sync", files: 1204, total: 90_000, bytes: 12_400_000_000, size: 79_000_000_000, errors: 2, rate: 84e6,
		current: "photos/1987/ein sehr langer Name mit Umlauten äöü und 漢字.tiff",
	}
	for columns := 1; columns <= 200; columns++ {
		if line := s.lineFor(columns); runewidth.StringWidth(line) >= max(columns, 1) {
			t.Errorf("%d columns: %q has %d", columns, line, runewidth.StringWidth(line))
		}
	}
	for columns, want := range map[int]string{
		18:  "sync  15%",
		40:  "sync  15%  12 GB of 79 GB  13m left",
		80:  "sync  15%  12 GB of 79 GB  84 MB/s  13m left  1,204/90,000 files  2 failed",
		120: "sync  15%  12 GB of 79 GB  84 MB/s  13m left  1,204/90,000 files  2 failed  photos/1987/ein sehr …ten äöü und 漢字.tiff",
	} {
		if got := s.lineFor(columns); got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
	}
}

// TestRateIsThatOfTheLastSeconds: what came long ago does not count, and a pause lowers it.
func TestRateIsThatOfTheLastSeconds(t *testing.T) {
	var r rateMeter
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	r.add(begin, 0)
	for second := 1; second <= 60; second++ {
		if got := r.add(begin.Add(time.Duration(second)*time.Second), int64(second)*1000); got != 1000 {
			t.Errorf("after %d s: got %v bytes a second, want 1000", second, got)
		}
	}
	if got := r.add(begin.Add(75*time.Second), 60_000); got > 100 {
		t.Errorf("after a pause of 15 s: got %v bytes a second, want about none", got)
	}
}
