//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	rec "instep/internal/record"
)

// recording starts record over a socket, with its standard output going to out, and connects
// to it.
func recording(t *testing.T, dir string, out io.Writer) (stop func(os.Signal) error, conn net.Conn) {
	t.Helper()
	socket := filepath.Join(dir, "s.sock")
	cmd := command(t, "record", "--base-url", "http://example.org/", "--out", filepath.Join(dir, "out"),
		"--state", filepath.Join(dir, "state"), "--socket", socket, "--every", "20ms")
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for {
		var err error
		if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", socket); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			t.Fatalf("nobody listens: %v, %v", err, cmd.Wait())
		case <-retry.C:
		}
	}
	t.Cleanup(func() { conn.Close() })
	info, err := os.Stat(socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v; want it to be the user's alone", info.Mode(), err)
	}
	return func(sig os.Signal) error {
		if err := cmd.Process.Signal(sig); err != nil {
			return err
		}
		return cmd.Wait()
	}, conn
}

// pushUntil pushes changes until n are acknowledged, then calls end; what was acknowledged
// in all is returned.
func pushUntil(t *testing.T, conn net.Conn, round, n int, end func()) (acknowledged []string) {
	go func() {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(conn, "{\"uri\":\"http://example.org/%d/%d\"}\n", round, i); err != nil {
				return
			}
		}
	}()
	answers := json.NewDecoder(bufio.NewReader(conn))
	ended := make(chan struct{})
	for {
		var a rec.Answer
		if err := answers.Decode(&a); err != nil {
			break
		}
		if !a.OK {
			t.Errorf("answer %+v", a)
			break
		}
		if acknowledged = append(acknowledged, a.URI); len(acknowledged) == n {
			go func() {
				defer close(ended)
				end()
			}()
		}
	}
	if len(acknowledged) < n {
		t.Fatalf("record ended after %d acknowledgements, want %d", len(acknowledged), n)
	}
	<-ended
	return acknowledged
}

// What comes over a socket is counted in the end, and each publication has a line.
func TestRecordCountsWhatCameOverItsSocket(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	stop, conn := recording(t, dir, &out)
	if _, err := conn.Write([]byte(`{"uri":"http://example.org/1"}` + "\n" + `{"uri":"http://example.org/2"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(conn)
	for range 2 {
		var a rec.Answer
		if err := answers.Decode(&a); err != nil || !a.OK {
			t.Fatalf("answer %+v, %v", a, err)
		}
	}
	if err := stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "published, 2 resources") || !strings.Contains(got, "created=2") {
		t.Errorf("got %q, want a line for the publication and created=2", got)
	}
}

// What was acknowledged is published, whatever ended the program.
func TestRecordLosesNothingThatItAcknowledged(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	rng := killRandom(t)
	var all []string
	for round := range killRounds() {
		stop, conn := recording(t, dir, nil)
		sig := os.Signal(syscall.SIGKILL)
		if round%2 == 1 {
			sig = syscall.SIGTERM
		}
		var took time.Duration
		all = append(all, pushUntil(t, conn, round, 1+rng.IntN(3000), func() {
			begin := time.Now()
			if err := stop(sig); (err == nil) != (sig == syscall.SIGTERM) {
				t.Errorf("%v: record ended with %v", sig, err)
			}
			took = time.Since(begin)
		})...)
		if took > patience {
			t.Errorf("it took %s to stop", took)
		}
	}
	mustDo(t, "record", "--base-url", "http://example.org/", "--out", filepath.Join(dir, "out"), "--state", filepath.Join(dir, "state"))
	published := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(dir, "out", "resourcesync"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".xml") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, part := range strings.Split(string(text), "<loc>")[1:] {
			loc, _, _ := strings.Cut(part, "</loc>")
			published[loc] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, uri := range all {
		if !published[uri] {
			t.Errorf("%s was acknowledged and is not published", uri)
		}
	}
}
