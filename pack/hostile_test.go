package pack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/pack"
)

// readAll opens a package as a Destination does and reads every member of it.
func readAll(b []byte) (contents map[string]string, err error) {
	p, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{})
	if err != nil {
		return nil, err
	}
	if _, err := p.FindManifest(); err != nil {
		return nil, err
	}
	contents = map[string]string{}
	for m := range p.Members() {
		r, err := m.Open(1 << 30)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		contents[m.Name()] = string(text)
	}
	return contents, nil
}

// hostileNames are names that lead elsewhere when somebody unpacks them.
var hostileNames = []string{
	"../x", "../../x", "../../../../../../../../etc/passwd", "a/../../x", "a/b/../../../x", "a/..", "..", "../", "./../x", ".//../x",
	"/x", "//x", "///etc/passwd", "/etc/cron.d/x", "/../x", "/./x", "/a/../../x",
	`..\x`, `..\..\x`, `a\..\..\x`, `\x`, `\\host\share\x`, `C:\x`, `C:x`, `c:/x`, `\\?\C:\x`, `\\.\COM1`, `a/..\../x`, `..\/x`,
	"~/x", "~root/x", "$HOME/x", "%TEMP%/x", "-rf", "--help", "|x", ";x", "`x`", "a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7fb",
	"CON", "con.txt", "NUL", "COM1", "LPT9.x", "a.", "a ", " a", "x:stream", "file://x", "http://example.org/x",
	"%2e%2e/x", "..%2fx", "..%5cx", "\u202egpj.exe", "a\u200bb", "..\u2215x", "\uff0e\uff0e/x", "e\u0301", strings.Repeat("a/", 2_000) + "x", strings.Repeat("x", 60_000),
}

// TestCat_DMP_01: a name in a package is never a path. It finds its bytes for who asks
// for exactly it, and nothing if it climbs; and nothing is written anywhere, whatever
// mode a member claims to have.
func TestCat_DMP_01(t *testing.T) {
	modes := map[string]uint32{"file": 0o100644, "symbolic link": 0o120777, "block device": 0o060666, "character device": 0o020666, "FIFO": 0o010666, "setuid": 0o104777, "directory": 0o040755}
	n := 0
	for i, name := range hostileNames {
		for what, mode := range modes {
			if i > 2 && what != "file" {
				continue
			}
			n++
			data := fmt.Sprintf("bytes %d", i)
			isDirectory := strings.HasSuffix(name, "/")
			if isDirectory {
				data = ""
			}
			z := withMembers(rawMember{name: name, data: data, attributes: mode << 16})
			p := open(t, z.bytes())
			m, found := p.Find(name)
			climbs := slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), "..")
			if want := !climbs && !isDirectory; found != want {
				t.Errorf("%q, a %s: found %v, want %v", name, what, found, want)
			}
			if !found {
				continue
			}
			r, err := m.Open(100)
			if err != nil {
				t.Errorf("%q, a %s: %v", name, what, err)
				continue
			}
			got, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close()); err != nil || string(got) != data {
				t.Errorf("%q, a %s: got %q, %v, want %q", name, what, got, err, data)
			}
		}
	}
	if n < 60 {
		t.Errorf("got %d packages, want 60", n)
	}
}

// TestCat_DMP_01_path: a path of a manifest never leads out of the package either.
func TestCat_DMP_01_path(t *testing.T) {
	p := open(t, withMembers(rawMember{name: "x", data: "bytes"}, rawMember{name: "a/x", data: "others"}, rawMember{name: "../y", data: "out"}).bytes())
	for _, path := range []string{"../x", "/../x", "/a/../x", `\..\x`, "a/../a/x", "/../a/x", "../y", "/../y", "y/../../y", ".."} {
		if m, ok := p.Find(path); ok {
			t.Errorf("%q: found %q", path, m.Name())
		}
		if m, ok := p.FindBelow(path); ok {
			t.Errorf("%q: found %q below", path, m.Name())
		}
	}
}

// bombs are packages that are much larger than they look, or take long to read.
func bombs() map[string][]byte {
	const gib = 1 << 30
	zeros := deflate(make([]byte, 10<<20)) // 10 KiB
	bomb := func(size uint64, packed []byte) rawMember {
		return rawMember{name: "bomb", deflated: true, packed: func([]byte) []byte { return packed }, extra: zip64(size), central: in64size, local: in64size}
	}
	many := func(n int, name func(i int) string) []byte {
		z := rawZip{members: []rawMember{aManifest()}}
		for i := range n {
			z.members = append(z.members, rawMember{name: name(i)})
		}
		return z.bytes()
	}
	return map[string][]byte{
		"a ratio of 1,000 to 2 GiB":      withMembers(bomb(2*gib, make([]byte, 3<<20))).bytes(),
		"a ratio that cannot be":         withMembers(bomb(11<<20, zeros[:1<<10])).bytes(),
		"585 GB by one byte":             withMembers(bomb(585<<30, []byte{0})).bytes(),
		"the largest number there is":    withMembers(bomb(1<<63-1, zeros)).bytes(),
		"a number that is negative":      withMembers(bomb(1<<64-1, zeros)).bytes(),
		"two members of 40 GiB":          withMembers(named("a", bomb(40<<30, nil)), named("b", bomb(40<<30, nil))).bytes(),
		"stored, and larger than itself": withMembers(rawMember{name: "a", data: "x", central: func(b []byte) { le.PutUint32(b[24:], gib) }}).bytes(),
		"beyond the end":                 withMembers(rawMember{name: "a", data: "x", central: func(b []byte) { le.PutUint32(b[20:], gib) }}).bytes(),
		"overlapping members":            overlapping(30, false),
		"members within members":         overlapping(30, true),
		"one member named 1,000 times":   sharing(1_000),
		"65,535 members in no directory": rawZip{members: []rawMember{aManifest()}, end: func(b []byte) { le.PutUint32(b[8:], 1<<32-1) }}.bytes(),
		"a million members said":         rawZip{members: []rawMember{aManifest()}, middle: zip64End(1_000_000, nil), end: saturated}.bytes(),
		"2^63 members said":              rawZip{members: []rawMember{aManifest()}, middle: zip64End(1<<63-1, nil), end: saturated}.bytes(),
		"150,000 members":                withZIP64(many(150_000, func(i int) string { return fmt.Sprint(i) })),
		"a directory of 17 MiB":          many(300, func(i int) string { return fmt.Sprint(i) + strings.Repeat("n", 60_000) }),
		"a directory of 4 GiB said":      rawZip{members: []rawMember{aManifest()}, end: func(b []byte) { le.PutUint32(b[12:], 1<<32-2) }}.bytes(),
		"an end of 2^63 bytes said": rawZip{members: []rawMember{aManifest()}, end: saturated, middle: zip64End(1, func(r, _ []byte) {
			le.PutUint64(r[40:], 1<<63-1)
			le.PutUint64(r[48:], 1<<63-1)
		})}.bytes(),
		"a record of 64 bits that is huge":  rawZip{members: []rawMember{aManifest()}, end: saturated, middle: zip64End(1, func(r, _ []byte) { le.PutUint64(r[4:], 1<<62) })}.bytes(),
		"a locator that leads to itself":    rawZip{members: []rawMember{aManifest()}, end: saturated, middle: zip64End(1, func(_, l []byte) { le.PutUint64(l[8:], le.Uint64(l[8:])+56) })}.bytes(),
		"a locator that leads nowhere":      rawZip{members: []rawMember{aManifest()}, end: saturated, middle: zip64End(1, func(_, l []byte) { le.PutUint64(l[8:], 1<<63) })}.bytes(),
		"extra fields that are cut":         withMembers(rawMember{name: "a", extra: "\x01\x00\xff\xff"}).bytes(),
		"a size of 64 bits that is missing": withMembers(rawMember{name: "a", central: in64size}).bytes(),
		"a manifest of 200 MiB":             rawZip{members: []rawMember{named("manifest.xml", bomb(200<<20, make([]byte, 1<<20)))}}.bytes(),
		"a manifest that goes on":           rawZip{members: []rawMember{{name: "manifest.xml", deflated: true, data: strings.Repeat(" ", 20<<20), central: small, local: small}}}.bytes(),
		"a member that goes on":             withMembers(rawMember{name: "a", deflated: true, data: strings.Repeat(" ", 20<<20), central: small, local: small}).bytes(),
		"a million names in one place":      many(90_000, func(i int) string { return strings.Repeat("/", i%100) + strings.Repeat("./", i/100%100) + "same" }),
	}
}

func saturated(b []byte) { copy(b[8:20], bytes.Repeat([]byte{0xff}, 12)) }

func small(b []byte) {
	at := 22
	if b[1] == 'K' && b[2] == 1 {
		at = 24
	}
	le.PutUint32(b[at:], 100)
}

// in64size moves the size of a header to its extra field.
func in64size(b []byte) {
	at := 22
	if b[2] == 1 {
		at = 24
	}
	le.PutUint32(b[at:], 1<<32-1)
}

func zip64(size uint64) string { return "\x01\x00\x08\x00" + string(le.AppendUint64(nil, size)) }

func named(name string, m rawMember) rawMember {
	m.name = name
	return m
}

// overlapping is a package whose members begin one within the other and share one
// kernel of compressed bytes at their end, as D. Fifield's bombs do.
func overlapping(n int, within bool) []byte {
	kernel := deflate(make([]byte, 20<<20))
	z := rawZip{members: []rawMember{aManifest(), {name: "kernel", packed: func([]byte) []byte { return kernel }, data: string(kernel)}}}
	for i := range n {
		z.members = append(z.members, rawMember{name: fmt.Sprint(i), hidden: true})
	}
	for i := range n {
		m := rawMember{name: fmt.Sprintf("overlap-%d", i), deflated: true, packed: func([]byte) []byte { return nil }}
		m.central = func(b []byte) {
			le.PutUint32(b[20:], uint32(len(kernel)))
			le.PutUint32(b[24:], 20<<20)
		}
		m.offset = func(own int) uint32 {
			if within {
				return uint32(100 + i)
			}
			return uint32(own - len(kernel)/2)
		}
		z.members = append(z.members, m)
	}
	return z.bytes()
}

// sharing is a package of many names for the same bytes.
func sharing(n int) []byte {
	z := withMembers(rawMember{name: "kernel", data: strings.Repeat(" ", 10<<20), deflated: true})
	var at uint32
	said := make([]byte, 18) // method, time, checksum and sizes
	z.members[1].offset = func(own int) uint32 { at = uint32(own); return at }
	z.members[1].central = func(b []byte) { copy(said, b[10:]) }
	for i := range n {
		z.members = append(z.members, rawMember{
			name:    fmt.Sprintf("alias-%d", i),
			central: func(b []byte) { copy(b[10:], said) },
			offset:  func(int) uint32 { return at },
		})
	}
	return z.bytes()
}

// withZIP64 adds to a package of more than 65,535 members the records that count them.
func withZIP64(b []byte) []byte {
	end := bytes.Clone(b[len(b)-22:])
	size, at := int(le.Uint32(end[12:])), int(le.Uint32(end[16:]))
	count := bytes.Count(b[at:], []byte("PK\x01\x02"))
	saturated(end)
	return append(append(b[:len(b)-22:len(b)-22], zip64End(count, nil)(at, size)...), end...)
}

// TestCat_DMP_02: what would fill disk, memory or time is refused before it does.
func TestCat_DMP_02(t *testing.T) {
	all := bombs()
	if len(all) < 25 {
		t.Errorf("got %d bombs, want 25", len(all))
	}
	const memory, most = 128 << 20, 30 * time.Second // on a busy machine
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			n, err := unpackBounded(b)
			if err == nil {
				t.Error("got no error")
			}
			if took := time.Since(start); took > most {
				t.Errorf("took %v, want at most %v", took, most)
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > memory {
				t.Errorf("took %d bytes of memory, want at most %d", got, memory)
			}
			if n > 64<<10 {
				t.Errorf("%d bytes came out of it", n)
			}
		})
	}
}

// unpackBounded reads a package as far as a Destination would and counts what comes
// out of it.
func unpackBounded(b []byte) (n int64, err error) {
	p, err := pack.Open(bytes.NewReader(b), int64(len(b)), pack.Limits{})
	if err != nil {
		return 0, err
	}
	_, r, err := p.Manifest()
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(io.Discard, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return n, err
	}
	for m := range p.Members() {
		r, err := m.Open(1 << 40)
		if err != nil {
			return n, err
		}
		more, err := io.Copy(io.Discard, r)
		n += more
		if err := errors.Join(err, r.Close()); err != nil {
			return n, err
		}
	}
	return n, nil
}
