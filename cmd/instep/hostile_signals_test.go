//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long a command that was told to stop may take on a busy machine;
// a server gives answers under way four seconds.
const patience = 30 * time.Second

// interruptedAt runs the program, sends it sig once reached is closed, and returns
// how it ended.
func interruptedAt(t *testing.T, sig os.Signal, reached <-chan struct{}, args ...string) (code int, stdout string) {
	t.Helper()
	cmd := command(t, append(args, "--json")...)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-reached:
	case err := <-ended:
		t.Fatalf("ended before it was told to: %v\n%s%s", err, out.String(), msg.String())
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-ended
		t.Fatalf("still running %v after %v\n%s", patience, sig, msg.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "summary" || last.ExitCode != cmd.ProcessState.ExitCode() {
		t.Errorf("last record %q of a run that ended with %d: %v", lines[len(lines)-1], cmd.ProcessState.ExitCode(), err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// TestInterruptedWhileTheSourceIsSilent stops commands that wait for a Source that
// does not answer, at every place where they may wait, and lets them go on later.
func TestInterruptedWhileTheSourceIsSilent(t *testing.T) {
	const body = "hello"
	tests := []struct {
		command, silent string
		baseline        bool // the mirror exists
	}{
		{"sync", "/.well-known/resourcesync", false},
		{"sync", "/caps.xml", false},
		{"sync", "/list.xml", false},
		{"sync", "/list.xml", true},
		{"sync", "/x", false},
		{"audit", "/list.xml", true},
		{"sync --watch", "/list.xml", false},
		{"sync --watch", "/x", false},
	}
	signals := map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated}
	for _, tt := range tests {
		for sig, want := range signals {
			name := tt.command + tt.silent + " " + sig.String()
			if tt.baseline {
				name += " again"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHostile(t)
				h.give("/", body)
				h.site(urlset(resourceList, listed(h.URL+"/w", body), listed(h.URL+"/x", body)))
				dir := filepath.Join(t.TempDir(), "m")
				if tt.baseline {
					mustDo(t, "sync", h.URL, dir)
				}
				reached := make(chan struct{})
				h.replace(tt.silent, func(w http.ResponseWriter, r *http.Request) {
					_, _ = w.Write([]byte("<"))
					_ = http.NewResponseController(w).Flush()
					close(reached)
					<-r.Context().Done()
				})
				code, stdout := interruptedAt(t, sig, reached, append(strings.Fields(tt.command), h.URL, dir)...)
				if code != want {
					t.Errorf("exit code: got %d, want %d\n%s", code, want, stdout)
				}
				h.replace(tt.silent, nil)
				mustDo(t, "sync", h.URL, dir)
				mustDo(t, "audit", h.URL, dir)
			})
		}
	}
}

// TestOnlyCommandsThatKeepTheirWorkContinue interrupts lint, which starts anew, and sync, which
// continues.
func TestOnlyCommandsThatKeepTheirWorkContinue(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		hints int
	}{
		{[]string{"lint"}, 0},
		{[]string{"sync", "-n"}, 0},
		{[]string{"sync"}, 1},
	} {
		h := newHostile(t)
		reached := make(chan struct{})
		h.replace("/.well-known/resourcesync", func(_ http.ResponseWriter, r *http.Request) {
			close(reached)
			<-r.Context().Done()
		})
		args := append(tt.args, h.URL)
		if tt.args[0] == "sync" {
			args = append(args, filepath.Join(t.TempDir(), "m"))
		}
		code, stdout := interruptedAt(t, os.Interrupt, reached, args...)
		if n := strings.Count(stdout, "what was completed is kept"); code != exitInterrupted || n != tt.hints {
			t.Errorf("%s: exit code %d, %d hints to continue; want %d\n%s", tt.args, code, n, tt.hints, stdout)
		}
	}
}

// TestServeStopsThoughReadersAreSlow stops a server whose clients read nothing.
func TestServeStopsThoughReadersAreSlow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(256 << 20); err != nil {
		t.Fatal(err)
	}
	base, stop := serveSite(t, dir)
	for range 20 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 100)); err != nil { // the answer is under way
			t.Fatal(err)
		}
	}
	begin := time.Now()
	cmd := stop()
	if took := time.Since(begin); took > patience || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("ended with %d after %v", cmd.ProcessState.ExitCode(), took)
	}
	if peak := peakMemory(cmd); peak > peakLimit {
		t.Errorf("peak memory: %d MB", peak>>20)
	}
}

// A watch that is told to stop while it waits ends with what its last run came to.
func TestWatchStopsWhileTheSourceIsQuiet(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.give("/", "hello")
	h.site(urlset(resourceList, listed(h.URL+"/w", "hello")))
	waits := make(chan struct{})
	var lists atomic.Int64
	h.replace("/list.xml", func(w http.ResponseWriter, _ *http.Request) {
		if lists.Add(1) == 3 {
			close(waits)
		}
		_, _ = w.Write([]byte(urlset(resourceList, listed(h.URL+"/w", "hello"))))
	})
	dir := filepath.Join(t.TempDir(), "m")
	code, stdout := interruptedAt(t, syscall.SIGTERM, waits, "sync", "--watch", "--every", "1s", h.URL, dir)
	// The third run may just be under way.
	if code != exitOK && code != 128+int(syscall.SIGTERM) || !strings.Contains(stdout, `"same":1,"created":1,`) {
		t.Errorf("got %d, want %d and one resource created\n%s", code, exitOK, stdout)
	}
	mustDo(t, "audit", h.URL, dir)
}
