package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"instep/fetch"
)

const alphabet = "abcdefghijklmnopqrstuvwxyz"

// versioned serves a text by http.ServeContent, with an ETag.
func versioned(tag, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Type", "text/plain")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}
}

func TestPartIsAnsweredWithExactlyItsBytes(t *testing.T) {
	s := serve(t, versioned(`"1"`, alphabet))
	c := client(t, fetch.Options{}, s)
	tests := []struct {
		part   fetch.Part
		want   string
		offset int64
		kind   fetch.Kind
	}{
		{fetch.Part{From: 0, Length: 3}, "abc", 0, 0},
		{fetch.Part{From: 23, Length: 3}, "xyz", 23, 0},
		{fetch.Part{From: 23, Length: 300}, "xyz", 23, 0},
		{fetch.Part{From: 20}, "uvwxyz", 20, 0},
		{fetch.Part{From: 0}, alphabet, 0, 0},
		{fetch.Part{From: -1, Length: 2}, "yz", 24, 0},
		{fetch.Part{From: -1, Length: 200}, alphabet, 0, 0},
		{fetch.Part{From: 5, Length: 1, IfRange: `"1"`}, "f", 5, 0},
		{fetch.Part{From: 5, Length: 1, IfRange: `"2"`}, alphabet, 0, 0}, // another version: all of it
		{fetch.Part{From: 26}, "", 0, fetch.Protocol},
		{fetch.Part{From: 5, IfRange: `W/"1"`}, "", 0, fetch.Refused},
		{fetch.Part{From: 5, IfRange: "Mon, 02 Jan 2006 15:04:05 GMT"}, "", 0, fetch.Refused},
		{fetch.Part{From: -1}, "", 0, fetch.Refused},
		{fetch.Part{From: -2, Length: 1}, "", 0, fetch.Refused},
		{fetch.Part{From: 1 << 62, Length: 1 << 62}, "", 0, fetch.Refused},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%+v", tt.part), func(t *testing.T) {
			resp, err := c.Get(t.Context(), fetch.Request{URL: s.URL, Part: &tt.part})
			if tt.kind != 0 {
				if !errors.Is(err, tt.kind) {
					t.Errorf("got %v, want %v", err, tt.kind)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if string(got) != tt.want || resp.Offset != tt.offset || resp.Total != 26 || resp.ContentLength != int64(len(tt.want)) || err != nil {
				t.Errorf("got %q at %d of %d, %d bytes, %v; want %q at %d of 26", got, resp.Offset, resp.Total, resp.ContentLength, err, tt.want, tt.offset)
			}
		})
	}
}

// What a server says of a part has to be what was asked for, and its bytes what it says.
func TestPartThatIsNotTheOneAskedForIsRefused(t *testing.T) {
	tests := []struct {
		name   string
		part   fetch.Part
		answer string
		kind   fetch.Kind // 0: it is used
		says   string
	}{
		{"right", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", 0, ""},
		{"of an unknown total", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/*\r\nContent-Length: 3\r\n\r\ncde", 0, ""},
		{"to the end of an unknown total", fetch.Part{From: 2}, "Content-Range: bytes 2-4/*\r\nContent-Length: 3\r\n\r\ncde", 0, ""},
		{"until close", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/9\r\n\r\ncde", 0, ""},
		{"without a Content-Range", fetch.Part{From: 2, Length: 3}, "Content-Length: 3\r\n\r\ncde", fetch.Protocol, "expected a Content-Range"},
		{"of other units", fetch.Part{From: 2, Length: 3}, "Content-Range: items 2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "Content-Range"},
		{"garbage", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes +2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "Content-Range"},
		{"unsatisfied", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes */9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "Content-Range"},
		{"backwards", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 4-2/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "Content-Range"},
		{"beyond its total", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/4\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "Content-Range"},
		{"absurd numbers", fetch.Part{From: 2}, "Content-Range: bytes 2-9223372036854775807/*\r\n\r\ncde", fetch.Protocol, "Content-Range"},
		{"earlier", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 1-3/9\r\nContent-Length: 3\r\n\r\nbcd", fetch.Protocol, "bytes 2-4"},
		{"overlapping", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 1-4/9\r\nContent-Length: 4\r\n\r\nbcde", fetch.Protocol, "bytes 2-4"},
		{"shorter", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-3/9\r\nContent-Length: 2\r\n\r\ncd", fetch.Protocol, "bytes 2-4"},
		{"longer", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-5/9\r\nContent-Length: 4\r\n\r\ncdef", fetch.Protocol, "bytes 2-4"},
		{"not to the end", fetch.Part{From: 2}, "Content-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "from offset 2 to the end"},
		{"not the last", fetch.Part{From: -1, Length: 3}, "Content-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "the last 3"},
		{"the last of an unknown total", fetch.Part{From: -1, Length: 3}, "Content-Range: bytes 2-4/*\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "the last 3"},
		{"of another length than it says", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/9\r\nContent-Length: 4\r\n\r\ncdef", fetch.Protocol, "expected 3 bytes"},
		{"several", fetch.Part{From: 2, Length: 3}, "Content-Type: multipart/byteranges; boundary=x\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "several"},
		{"another version", fetch.Part{From: 2, Length: 3, IfRange: `"1"`}, "ETag: \"2\"\r\nContent-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "version"},
		{"a version it does not tell", fetch.Part{From: 2, Length: 3, IfRange: `"1"`}, "Content-Range: bytes 2-4/9\r\nContent-Length: 3\r\n\r\ncde", fetch.Protocol, "version"},
		{"cut off", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/9\r\n\r\ncd", fetch.Temporary, "expected 3 bytes, got 2"},
		{"too much", fetch.Part{From: 2, Length: 3}, "Content-Range: bytes 2-4/9\r\n\r\ncdef", fetch.Protocol, "got more"},
		{"larger than allowed", fetch.Part{From: 2}, "Content-Range: bytes 2-200/201\r\nContent-Length: 199\r\n\r\n", fetch.TooLarge, "at most 100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeNet{answer: func(conn net.Conn, _ *http.Request) bool {
				write(conn, "HTTP/1.1 206 Partial Content\r\n"+tt.answer)
				return false
			}}
			o := f.options()
			o.MaxRetries = -1
			c := f.newClient(t, o)
			resp, err := c.Get(t.Context(), fetch.Request{URL: "http://example.org/", Part: &tt.part, MaxBytes: 100})
			var got bytes.Buffer
			if err == nil {
				_, err = got.ReadFrom(resp.Body)
				resp.Body.Close()
			}
			switch {
			case tt.kind == 0 && (err != nil || got.String() != "cde"):
				t.Errorf("got %q, %v; want cde", got.String(), err)
			case tt.kind != 0 && (!errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("got %q, %v; want %v: %q", got.String(), err, tt.kind, tt.says)
			}
		})
	}
}
