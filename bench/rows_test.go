//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"instep/lint"
	"instep/resourcesync"
)

// pass does the work of a row once. It calls look now and then, about every
// 64 KB, and returns how many entries there were.
type pass func(s set, look func()) (entries int, err error)

// passes are the rows that are measured in a process of their own that does
// nothing else.
var passes = map[string]pass{
	"decode":    decodeFile(set.firstList),
	"strict":    decodeFile(set.firstList, resourcesync.WithTolerance(resourcesync.Strict)),
	"packed":    decodeFile(set.packed),
	"encode":    encodeEntries,
	"token":     overFile(set.firstList, tokens),
	"unmarshal": overFile(set.firstList, unmarshal),
	"bare":      overFile(set.firstList, bare),
	"scan":      overFile(set.firstList, scan),
	"small":     decodeFile(set.small),
	"double":    decodeDouble,
	"all":       decodeAll,
	"lint":      overFile(set.firstList, check),
}

func (s set) firstList() string { return s.list(0) }

// result is what one process measured.
type result struct {
	Seconds float64 // of CPU time for one pass, in user and system mode, of all threads
	Entries int
	Mallocs float64 // per entry
	Heap    uint64  // most bytes of heap in use
	RSS     uint64  // most bytes of the process that were resident; 0: the system does not tell
}

// measure runs p once to warm up, once to look at its heap, and then as often as
// it takes to use the CPU for the time given.
func measure(p pass, s set, atLeast time.Duration) (r result, err error) {
	if _, err = p(s, func() {}); err != nil {
		return r, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.Mallocs
	r.Entries, err = p(s, func() {
		runtime.ReadMemStats(&m)
		r.Heap = max(r.Heap, m.HeapInuse)
	})
	runtime.ReadMemStats(&m)
	r.Mallocs = float64(m.Mallocs-before) / float64(r.Entries)
	start, n := cpuTime(), 0
	for ; err == nil && (n == 0 || cpuTime()-start < atLeast); n++ {
		_, err = p(s, func() {})
	}
	r.Seconds = (cpuTime() - start).Seconds() / float64(n)
	r.RSS = peakRSS()
	return r, err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // there is no other reason than a wrong argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS is what Linux calls VmHWM: unlike the maximum in getrusage it leaves out
// what the process was before it ran this program.
func peakRSS() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// looking calls look for each read or write.
type looking struct {
	io.Reader
	look func()
}

func (l looking) Read(p []byte) (int, error)  { l.look(); return l.Reader.Read(p) }
func (l looking) Write(p []byte) (int, error) { l.look(); return len(p), nil }

func overFile(name func(set) string, do func(io.Reader) (int, error)) pass {
	return func(s set, look func()) (int, error) {
		f, err := os.Open(name(s))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return do(looking{f, look})
	}
}

func decodeFile(name func(set) string, opts ...resourcesync.Option) pass {
	return overFile(name, func(r io.Reader) (int, error) { return count(r, opts...) })
}

// check holds a list against the rules. There must be nothing to find: a finding
// takes time that a clean list does not.
func check(r io.Reader) (int, error) {
	var found error
	c := lint.Checker{Report: func(f lint.Finding) { found = fmt.Errorf("line %d: %s: %s", f.Line, f.Rule, f.Message) }}
	d, err := c.Document(context.Background(), "list.xml", r)
	return d.Entries, errors.Join(err, found)
}

func count(r io.Reader, opts ...resourcesync.Option) (n int, err error) {
	for _, err := range resourcesync.NewDecoder(r, opts...).Entries() {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// decodeDouble reads a document with every entry of the first list twice.
func decodeDouble(s set, look func()) (int, error) {
	f, err := os.Open(s.list(0))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head := make([]byte, 4096)
	if _, err := io.ReadFull(f, head); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	const end = "</urlset>\n"
	first := int64(bytes.Index(head, []byte("<url>")))
	last := info.Size() - int64(len(end))
	return count(looking{io.MultiReader(
		io.NewSectionReader(f, 0, last),
		io.NewSectionReader(f, first, last-first),
		strings.NewReader(end),
	), look})
}

// decodeAll reads the index and every list that it names.
func decodeAll(s set, look func()) (n int, err error) {
	f, err := os.Open(s.index())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for e, err := range resourcesync.NewDecoder(f).Entries() {
		if err != nil {
			return n, err
		}
		list := func(set) string { return filepath.Join(s.dir, path.Base(e.Loc)) }
		entries, err := decodeFile(list)(s, look)
		if n += entries; err != nil {
			return n, err
		}
	}
	return n, nil
}

var someEntries = sync.OnceValue(func() []resourcesync.Entry {
	entries := make([]resourcesync.Entry, 1000)
	for i := range entries {
		entries[i] = entry(i)
	}
	return entries
})

// encodeEntries writes a list of the size of the first one.
func encodeEntries(s set, look func()) (n int, err error) {
	entries := someEntries()
	enc, err := resourcesync.NewEncoder(looking{nil, look}, header(resourcesync.URLSet))
	for n = 0; err == nil && n < s.entries; n++ {
		err = enc.Encode(entries[n%len(entries)])
	}
	if err != nil {
		return n, err
	}
	return n, enc.Close()
}

// tokens reads the tokens and looks at none.
func tokens(r io.Reader) (n int, err error) {
	for dec := xml.NewDecoder(bufio.NewReaderSize(r, 64<<10)); ; {
		switch tok, err := dec.Token(); el := tok.(type) {
		case xml.StartElement:
			if el.Name.Local == "url" {
				n++
			}
		case nil:
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
	}
}

// unmarshal reads each entry into a struct of texts.
func unmarshal(r io.Reader) (n int, err error) {
	var e struct {
		Loc     string `xml:"loc"`
		LastMod string `xml:"lastmod"`
		MD      struct {
			Hash   string `xml:"hash,attr"`
			Length int64  `xml:"length,attr"`
			Type   string `xml:"type,attr"`
		} `xml:"md"`
	}
	dec := xml.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if el, ok := tok.(xml.StartElement); ok && el.Name.Local == "url" {
			if err := dec.DecodeElement(&e, &el); err != nil {
				return n, err
			}
			n++
		}
	}
}

func bare(r io.Reader) (n int, err error) {
	err = readBare(r, func(*bareEntry) { n++ })
	return n, err
}

// scan looks for each < and does nothing about it.
func scan(r io.Reader) (n int, err error) {
	const tagsOfEntry = 7 // url, loc, lastmod, their end tags, and rs:md; those of the root are fewer
	tags := 0
	for buf := make([]byte, 64<<10); ; {
		k, err := r.Read(buf)
		for b := buf[:k]; ; tags++ {
			i := bytes.IndexByte(b, '<')
			if i < 0 {
				break
			}
			b = b[i+1:]
		}
		if err == io.EOF {
			return tags / tagsOfEntry, nil
		} else if err != nil {
			return 0, err
		}
	}
}
