package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"instep/fetch"
)

// flaky serves versions of a resource over connections that are cut after some bytes
// of the body.
type flaky struct {
	texts  []string // by version
	now    int      // which is served
	cuts   []int    // bytes of the body that the next answers send; none: all
	ranges bool     // parts are served
	heeds  bool     // If-Range is heeded
	dated  bool     // Last-Modified instead of an ETag
	length bool     // Content-Length of a whole is told
	then   func()   // after each answer
	asked  []string // Range fields

	backoff time.Duration
}

func (f *flaky) version() string {
	if f.dated {
		return time.Unix(int64(1e9+f.now), 0).UTC().Format(http.TimeFormat)
	}
	return fmt.Sprintf("%q", fmt.Sprint("v", f.now))
}

func (f *flaky) answer(conn net.Conn, r *http.Request) bool {
	text := f.texts[f.now]
	field, want, cond := "ETag", f.version(), r.Header.Get("If-Range")
	if f.dated {
		field = "Last-Modified"
	}
	f.asked = append(f.asked, r.Header.Get("Range"))
	head := "HTTP/1.1 200 OK\r\n"
	if f.length {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(text))
	} else {
		head += "Transfer-Encoding: chunked\r\n"
	}
	body, chunked := text, !f.length
	var first int
	last := len(text) - 1
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); n > 0 && f.ranges && (!f.heeds || cond == "" || cond == want) {
		last = min(last, len(text)-1)
		if first > last {
			write(conn, fmt.Sprintf("HTTP/1.1 416 X\r\nContent-Range: bytes */%d\r\nContent-Length: 0\r\n\r\n", len(text)))
			return true
		}
		body, chunked = text[first:last+1], false
		head = fmt.Sprintf("HTTP/1.1 206 OK\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n", first, last, len(text), len(body))
	}
	cut := len(body)
	if len(f.cuts) > 0 {
		cut, f.cuts = min(f.cuts[0], cut), f.cuts[1:]
	}
	head += field + ": " + want + "\r\n\r\n"
	if chunked {
		head += fmt.Sprintf("%x\r\n", len(body))
	}
	whole := cut == len(body)
	if whole && chunked {
		body, cut = body+"\r\n0\r\n\r\n", cut+len("\r\n0\r\n\r\n")
	}
	write(conn, head+body[:cut])
	if f.then != nil {
		f.then()
	}
	return whole
}

func (f *flaky) read(ctx context.Context, t *testing.T, r fetch.Request) (string, error) {
	t.Helper()
	n := &fakeNet{answer: f.answer}
	o := n.options()
	o.Backoff = f.backoff
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.stop(c)
	r.URL = "http://example.org/"
	resp, err := c.Get(ctx, r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if _, again := resp.Body.Read(make([]byte, 1)); err == nil && again != io.EOF || err != nil && again != err {
		t.Errorf("the body ended with %v, then with %v", err, again)
	}
	return string(b), err
}

func TestBodyThatBreaksOffGoesOn(t *testing.T) {
	part := &fetch.Part{From: 5, Length: 10}
	tests := []struct {
		name string
		f    flaky
		req  fetch.Request
		want string // "": it fails
		says string
		last string // the last Range asked for

		chunked, changes bool
	}{
		{"by a strong ETag", flaky{cuts: []int{5}}, fetch.Request{Resume: fetch.ResumeStrong}, alphabet, "", "bytes=5-25", false, false},
		{"several times", flaky{cuts: []int{5, 5, 0, 10}}, fetch.Request{Resume: fetch.ResumeStrong}, "", "cut off", "bytes=10-25", false, false},
		{"up to the tries", flaky{cuts: []int{5, 5, 10}}, fetch.Request{Resume: fetch.ResumeStrong}, alphabet, "", "bytes=20-25", false, false},
		{"of a length not told", flaky{cuts: []int{5}}, fetch.Request{Resume: fetch.ResumeStrong}, alphabet, "", "bytes=5-", true, false},
		{"of a part", flaky{cuts: []int{3}}, fetch.Request{Resume: fetch.ResumeStrong, Part: part}, alphabet[5:15], "", "bytes=8-14", false, false},
		{"by its time, for who verifies", flaky{cuts: []int{5}, dated: true}, fetch.Request{Resume: fetch.ResumeVerified}, alphabet, "", "bytes=5-25", false, false},
		{"not by its time alone", flaky{cuts: []int{5}, dated: true}, fetch.Request{Resume: fetch.ResumeStrong}, "", "cut off", "", false, false},
		{"not unless asked", flaky{cuts: []int{5}}, fetch.Request{}, "", "cut off", "", false, false},
		{"not of another version", flaky{cuts: []int{5}}, fetch.Request{Resume: fetch.ResumeStrong}, "", "from the first byte again", "bytes=5-25", false, true},
		{"not of another version that is more than the rest", flaky{cuts: []int{5}}, fetch.Request{Resume: fetch.ResumeStrong, MaxBytes: 26}, "", "from the first byte again", "bytes=5-25", false, true},
		{"never beyond its bound", flaky{cuts: []int{5}}, fetch.Request{Resume: fetch.ResumeStrong, MaxBytes: 5}, "", "broke off", "", true, false},
		{"within its bound", flaky{cuts: []int{5}}, fetch.Request{Resume: fetch.ResumeStrong, MaxBytes: 26}, alphabet, "", "bytes=5-25", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := tt.f
				f.texts, f.ranges, f.heeds = []string{alphabet, strings.ToUpper(alphabet)}, true, true
				f.length = !tt.chunked
				if tt.changes {
					f.then = func() { f.now = 1 }
				}
				got, err := f.read(t.Context(), t, tt.req)
				switch {
				case tt.want != "" && (err != nil || got != tt.want):
					t.Errorf("got %q, %v; want %q", got, err, tt.want)
				case tt.want == "" && (!errors.Is(err, fetch.Temporary) || !strings.Contains(err.Error(), tt.says)):
					t.Errorf("got %q, %v; want it to fail: %q", got, err, tt.says)
				}
				// To ask for the whole again may help unless the rest was asked for without success.
				if fe, ok := errors.AsType[*fetch.Error](err); ok && fe.Restart != (tt.name != "several times") {
					t.Errorf("to start anew may help: %v", fe.Restart)
				}
				if last := f.asked[len(f.asked)-1]; last != tt.last {
					t.Errorf("last asked for %q, want %q", last, tt.last)
				}
			})
		})
	}
}

// The tries are those in a row: a long body over a bad line is read to its end.
func TestTriesOfABodyAreCountedAnewAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flaky{texts: []string{strings.Repeat(alphabet, 8<<20/26)}, ranges: true, heeds: true, length: true}
		f.cuts = []int{1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20}
		start := time.Now()
		got, err := f.read(t.Context(), t, fetch.Request{Resume: fetch.ResumeStrong})
		if err != nil || got != f.texts[0] {
			t.Errorf("got %d bytes, %v; want %d", len(got), err, len(f.texts[0]))
		}
		if took := time.Since(start); took != 6*250*time.Millisecond {
			t.Errorf("waited %v, want the first back-off six times", took)
		}
	})
}

func TestCancellationEndsTheWaitForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := flaky{texts: []string{alphabet}, ranges: true, heeds: true, length: true, cuts: []int{5}, then: func() { time.AfterFunc(time.Millisecond, cancel) }}
		start := time.Now()
		_, err := f.read(ctx, t, fetch.Request{Resume: fetch.ResumeStrong})
		if !errors.Is(err, context.Canceled) || time.Since(start) != time.Millisecond {
			t.Errorf("got %v after %v, want canceled after 1ms", err, time.Since(start))
		}
	})
}

// Whatever a server does with ranges and versions while connections break: what is
// read to its end is one version.
func TestCat_FET_08(t *testing.T) {
	whole, broken, joined := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		f := flaky{
			texts: []string{
				strings.Repeat("a", rapid.IntRange(1, 40).Draw(rt, "first")),
				strings.Repeat("b", rapid.IntRange(1, 40).Draw(rt, "second")), strings.Repeat("c", 20),
			},
			ranges: rapid.Bool().Draw(rt, "ranges"), heeds: rapid.Bool().Draw(rt, "heeds"), length: rapid.Bool().Draw(rt, "length"),
			cuts:    rapid.SliceOfN(rapid.IntRange(0, 40), 0, 4).Draw(rt, "cuts"),
			backoff: 1,
		}
		changes := rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(rt, "changes")
		f.then = func() {
			if changes[0] && f.now < len(f.texts)-1 {
				f.now++
			}
			changes = changes[1:]
		}
		got, err := f.read(t.Context(), t, fetch.Request{Resume: fetch.ResumeStrong})
		if err != nil {
			broken++
			return
		}
		if whole++; len(f.asked) > 1 {
			joined++
		}
		if !slices.Contains(f.texts, got) {
			rt.Errorf("read %q, which is no version of %q", got, f.texts)
		}
	})
	if !testing.Short() && (whole == 0 || broken == 0 || joined == 0) { // the few rounds of -short may miss one
		t.Errorf("of %d whole bodies %d were joined, %d broke off: the property was not put to the test", whole, joined, broken)
	}
}
