// Package memento reads and writes the datetimes and TimeMaps of the Memento protocol (RFC
// 7089), by which clients find earlier states of a resource (1.1 §14.6). A TimeMap lists the
// URIs of the states, which are called Mementos.
package memento

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"instep/internal/weblink"
)

// Header fields of RFC 7089 §2.1, and the media type of a TimeMap (§5).
const (
	AcceptDatetime = "Accept-Datetime"
	Datetime       = "Memento-Datetime"
	TimeMapType    = "application/link-format"
)

// Memento is one state of a resource.
type Memento struct {
	URI      string
	Datetime time.Time // in whole seconds
}

// TimeMap contains the links of a TimeMap that do not lead to Mementos.
type TimeMap struct {
	Original string // URI of the resource
	Self     string // URI of the TimeMap itself; "" if it is unknown
	TimeGate string // URI of the TimeGate; "" if there is none
}

// FormatDatetime formats a time for the header fields and for the "datetime" attribute of
// links.
func FormatDatetime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// ParseDatetime parses a time in the form that FormatDatetime writes, and in no other
// form.
func ParseDatetime(text string) (time.Time, error) {
	t, err := time.Parse(http.TimeFormat, text)
	if err != nil {
		return t, fmt.Errorf("datetime %q: expected the form %s", text, http.TimeFormat)
	}
	return t.UTC(), nil
}

// Write writes a TimeMap that lists the given Mementos, which must be in ascending order of
// time. It iterates over the Mementos twice instead of storing them. It returns an error if
// there are no Mementos.
func (m *TimeMap) Write(w io.Writer, mementos iter.Seq2[Memento, error]) error {
	var first, last Memento
	for v, err := range mementos {
		if err != nil {
			return err
		}
		if last = v; first.URI == "" {
			first = v
		}
	}
	if first.URI == "" {
		return errors.New("a TimeMap must list at least one Memento")
	}
	out := &linkWriter{w: w}
	out.print("<%s>; rel=\"original\"", m.Original)
	if m.Self != "" {
		out.print("<%s>; rel=\"self\"; type=\"%s\"; from=\"%s\"; until=\"%s\"", m.Self, TimeMapType, FormatDatetime(first.Datetime), FormatDatetime(last.Datetime))
	}
	if m.TimeGate != "" {
		out.print("<%s>; rel=\"timegate\"", m.TimeGate)
	}
	for v, err := range mementos {
		if err != nil {
			return err
		}
		out.print("<%s>; rel=\"%s\"; datetime=\"%s\"", v.URI, Relation(v == first, v == last), FormatDatetime(v.Datetime))
		if out.err != nil {
			return out.err
		}
	}
	_, err := io.WriteString(w, "\n")
	return errors.Join(out.err, err)
}

// Relation returns the link relation of a Memento, which depends on whether it is the
// first or the last one of its resource.
func Relation(first, last bool) string {
	switch {
	case first && last:
		return "first last memento"
	case first:
		return "first memento"
	case last:
		return "last memento"
	}
	return "memento"
}

type linkWriter struct {
	w     io.Writer
	begun bool
	err   error
}

func (l *linkWriter) print(format string, args ...any) {
	if l.err != nil {
		return
	}
	if l.begun {
		format = ",\n" + format
	}
	l.begun = true
	_, l.err = fmt.Fprintf(l.w, format, args...)
}

// Limits for reading TimeMaps.
const (
	MaxTimeMap  = 16 << 20 // bytes
	MaxMementos = 50_000
)

// ErrTooLong means that a TimeMap exceeds MaxTimeMap or MaxMementos.
var ErrTooLong = fmt.Errorf("the TimeMap is longer than %d MiB or has more than %d Mementos", MaxTimeMap>>20, MaxMementos)

// ReadTimeMap reads the TimeMap at a URI, with its Mementos in document order. It resolves
// references against the URI, and skips Mementos without a usable datetime or URI. It returns
// an error if the text has neither a Memento nor a link to the original resource.
func ReadTimeMap(r io.Reader, uri string) (m TimeMap, all []Memento, err error) {
	base, err := url.Parse(uri)
	if err != nil {
		return m, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxTimeMap+1))
	if err != nil {
		return m, nil, err
	}
	if len(text) > MaxTimeMap {
		return m, nil, ErrTooLong
	}
	links := weblink.Parse(string(text), MaxMementos+10)
	for i := range links {
		l := &links[i]
		to, err := base.Parse(l.Href)
		if err != nil {
			continue
		}
		switch {
		case l.Has("memento"):
			if at, err := ParseDatetime(l.Datetime); err == nil {
				all = append(all, Memento{URI: to.String(), Datetime: at})
			}
		case l.Has("original"):
			m.Original = to.String()
		case l.Has("timegate"):
			m.TimeGate = to.String()
		case l.Has("self"):
			m.Self = to.String()
		}
	}
	if len(all) > MaxMementos {
		return m, nil, ErrTooLong
	}
	if m.Original == "" && len(all) == 0 {
		return m, nil, fmt.Errorf("%s is no TimeMap: it has no link to an original resource or a Memento", uri)
	}
	return m, all, nil
}
