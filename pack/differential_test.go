package pack_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"instep/pack"
)

// ambiguous are packages that programs understand in different ways.
var ambiguous = map[string]rawZip{
	"two ends":                              {members: []rawMember{aManifest()}, comment: string(rawZip{members: []rawMember{aManifest(), {name: "a", data: "other"}}}.bytes())},
	"two ends, the second empty":            {members: []rawMember{aManifest()}, comment: "PK\x05\x06" + strings.Repeat("\x00", 18)},
	"an end in the comment":                 {members: []rawMember{aManifest()}, comment: "....PK\x05\x06"},
	"bytes after the end":                   {members: []rawMember{aManifest()}, after: "more"},
	"bytes before the first member":         {members: []rawMember{aManifest()}, before: "#!/bin/sh\n"},
	"a whole package before":                {members: []rawMember{aManifest()}, before: string(withMembers(rawMember{name: "a", data: "x"}).bytes())},
	"bytes before, that offsets count":      {members: []rawMember{{name: "hidden", hidden: true}, aManifest()}},
	"bytes between members":                 withMembers(rawMember{name: "a", data: "x"}, rawMember{name: "hidden", data: strings.Repeat("y", 70_000), hidden: true}, rawMember{name: "b"}),
	"few bytes between members":             withMembers(rawMember{name: "a", data: "x"}, rawMember{name: "hidden", data: "y", hidden: true}, rawMember{name: "b"}),
	"bytes before the directory":            {members: []rawMember{aManifest()}, between: strings.Repeat("z", 100)},
	"bytes after the directory":             {members: []rawMember{aManifest()}, middle: func(int, int) []byte { return []byte("zzzz") }},
	"one name twice":                        withMembers(rawMember{name: "a", data: "one"}, rawMember{name: "a", data: "two"}),
	"one name, with and without slash":      withMembers(rawMember{name: "a", data: "one"}, rawMember{name: "/a", data: "two"}),
	"one name, with a slash and backslash":  withMembers(rawMember{name: "a/b", data: "one"}, rawMember{name: `a\b`, data: "two"}),
	"one name, with and without a dot":      withMembers(rawMember{name: "a", data: "one"}, rawMember{name: "./a", data: "two"}),
	"a file and a directory":                withMembers(rawMember{name: "a", data: "one"}, rawMember{name: "a/"}),
	"manifest.xml and Manifest.xml":         withMembers(rawMember{name: "Manifest.xml", data: "other"}),
	"two manifests":                         withMembers(aManifest()),
	"manifest.xml and /MANIFEST.XML":        withMembers(rawMember{name: "/MANIFEST.XML", data: "other"}),
	"encrypted":                             withMembers(rawMember{name: "a", data: "x", flags: 1}),
	"strongly encrypted":                    withMembers(rawMember{name: "a", data: "x", flags: 1 | 1<<6}),
	"a directory that is masked":            withMembers(rawMember{name: "a", data: "x", flags: 1 << 13}),
	"patched data":                          withMembers(rawMember{name: "a", data: "x", flags: 1 << 5}),
	"method 1":                              withMembers(rawMember{name: "a", data: "x", central: method(1), local: method(1)}),
	"method 9":                              withMembers(rawMember{name: "a", data: "x", central: method(9), local: method(9)}),
	"method 12":                             withMembers(rawMember{name: "a", data: "x", central: method(12), local: method(12)}),
	"method 99":                             withMembers(rawMember{name: "a", data: "x", central: method(99), local: method(99)}),
	"another method in the local header":    withMembers(rawMember{name: "a", data: "x", local: method(8)}),
	"another name in the local header":      withMembers(rawMember{name: "a", data: "x", rename: func(string) string { return "b" }}),
	"a longer name in the local header":     withMembers(rawMember{name: "a", data: "x", rename: func(string) string { return "ab" }}),
	"another flag in the local header":      withMembers(rawMember{name: "a", data: "x", local: func(b []byte) { b[7] ^= 8 }}),
	"another length in the local header":    withMembers(rawMember{name: "a", data: "xyz", local: func(b []byte) { b[22]-- }}),
	"another size in the local header":      withMembers(rawMember{name: "a", data: "xyz", deflated: true, local: func(b []byte) { b[18]-- }}),
	"another checksum in the local header":  withMembers(rawMember{name: "a", data: "xyz", local: func(b []byte) { b[14] ^= 1 }}),
	"a wrong checksum":                      withMembers(rawMember{name: "a", data: "xyz", local: func(b []byte) { b[14] ^= 1 }, central: func(b []byte) { b[16] ^= 1 }}),
	"a descriptor of another length":        withMembers(rawMember{name: "a", data: "xyz", deflated: true, descriptor: true, follow: func(b []byte) []byte { b[12]++; return b }}),
	"a descriptor of another size":          withMembers(rawMember{name: "a", data: "xyz", deflated: true, descriptor: true, follow: func(b []byte) []byte { b[8]++; return b }}),
	"a descriptor of another checksum":      withMembers(rawMember{name: "a", data: "xyz", deflated: true, descriptor: true, follow: func(b []byte) []byte { b[4]++; return b }}),
	"a descriptor without an end":           withMembers(rawMember{name: "a", data: "xyz", deflated: true, descriptor: true, follow: func(b []byte) []byte { return append(b, 0) }}),
	"a descriptor that is not there":        withMembers(rawMember{name: "a", data: "xyz", deflated: true, descriptor: true, follow: func([]byte) []byte { return nil }}),
	"bytes after the compressed ones":       withMembers(rawMember{name: "a", data: "xyz", deflated: true, packed: func(b []byte) []byte { return append(b, "tail"...) }}),
	"compressed bytes that lack their end":  withMembers(rawMember{name: "a", data: strings.Repeat("xyz", 100), deflated: true, packed: func(b []byte) []byte { return b[:len(b)-2] }}),
	"a name with NUL":                       withMembers(rawMember{name: "a\x00b", data: "x"}),
	"no name":                               withMembers(rawMember{data: "x"}),
	"a name said to be UTF-8":               withMembers(rawMember{name: "a\xff", data: "x", flags: 1 << 11}),
	"another name in Unicode":               withMembers(rawMember{name: "a", data: "x", extra: "\x75\x70\x06\x00\x01\x43\xbe\xb7\xe8b"}),
	"a directory with bytes":                withMembers(rawMember{name: "a/", data: "x"}),
	"of two disks":                          {members: []rawMember{aManifest()}, end: func(b []byte) { b[4] = 1 }},
	"a member on another disk":              withMembers(rawMember{name: "a", data: "x", central: func(b []byte) { b[34] = 1 }}),
	"fewer members said":                    {members: []rawMember{aManifest(), {name: "a", data: "x"}}, end: func(b []byte) { b[8], b[10] = 1, 1 }},
	"more members said":                     {members: []rawMember{aManifest()}, end: func(b []byte) { b[8], b[10] = 2, 2 }},
	"two numbers of members":                {members: []rawMember{aManifest(), {name: "a"}}, end: func(b []byte) { b[8] = 1 }},
	"64 bits that say something else":       {members: []rawMember{aManifest()}, middle: zip64End(2, nil)},
	"64 bits that are elsewhere":            {members: []rawMember{aManifest()}, middle: zip64End(1, func(_, l []byte) { l[8]++ })},
	"64 bits with bytes after them":         {members: []rawMember{aManifest()}, middle: func(d, n int) []byte { return append(zip64End(1, nil)(d, n), 0) }},
	"a newer program is needed":             withMembers(rawMember{name: "a", data: "x", central: func(b []byte) { b[6] = 63 }}),
	"a local header that is none":           withMembers(rawMember{name: "a", data: "x", local: func(b []byte) { b[2] = 9 }}),
	"an offset into the middle of a member": withMembers(rawMember{name: "a", data: string(withMembers().bytes()), offset: func(own int) uint32 { return uint32(own + 31) }}),
}

func method(m uint16) func([]byte) {
	return func(b []byte) {
		at := 8
		if b[2] == 1 {
			at = 10
		}
		le.PutUint16(b[at:], m)
	}
}

// TestCat_DMP_03: what programs may read differently is refused as a whole or, where
// only its bytes show it, before the end of the member.
func TestCat_DMP_03(t *testing.T) {
	for name, z := range ambiguous {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(z.bytes())
			if !errors.Is(err, pack.ErrAmbiguous) && !errors.Is(err, pack.ErrNotZIP) {
				t.Errorf("got %v, want that it is refused", err)
			}
		})
	}
}

// bystanders read packages with the programs that others use; nil for one that is not
// installed.
type bystanders struct {
	python *pythonZip
	unzip  string
}

// pythonZip is a process that reads packages one after the other.
type pythonZip struct {
	in  io.WriteCloser
	out *json.Decoder
}

const pythonReader = `
import hashlib, json, sys, zipfile
for line in sys.stdin:
    found, wrong = {}, ""
    try:
        with zipfile.ZipFile(line.rstrip("\n")) as z:
            for i in z.infolist():
                if i.is_dir():
                    continue
                raw = i.orig_filename.encode("utf-8" if i.flag_bits & 0x800 else "cp437").hex()
                if raw in found:
                    wrong = "twice: " + i.orig_filename
                found[raw] = hashlib.sha256(z.open(i).read()).hexdigest()
    except Exception as e:
        wrong = repr(e)
    print(json.dumps({"found": found, "wrong": wrong}), flush=True)
`

func newBystanders(t *testing.T) *bystanders {
	b := &bystanders{}
	if tool, err := exec.LookPath("python3"); err == nil {
		cmd := exec.CommandContext(t.Context(), tool, "-c", pythonReader)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		b.python = &pythonZip{in, json.NewDecoder(out)}
		t.Cleanup(func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
	} else {
		t.Log("SKIPPED: python3 is not installed, so it has not read the packages")
	}
	if tool, err := exec.LookPath("unzip"); err == nil {
		b.unzip = tool
	} else {
		t.Log("SKIPPED: unzip is not installed, so it has not read the packages")
	}
	return b
}

// disagree says how others read a package that we have accepted.
func (b *bystanders) disagree(t *testing.T, file string, contents map[string]string, inOrder string) string {
	if b.python != nil {
		if _, err := fmt.Fprintln(b.python.in, file); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Found map[string]string
			Wrong string
		}
		if err := b.python.out.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if got.Wrong != "" || len(got.Found) != len(contents) {
			return fmt.Sprintf("python3 reads %d members of %d: %s", len(got.Found), len(contents), got.Wrong)
		}
		for name, text := range contents {
			sum := sha256.Sum256([]byte(text))
			if got.Found[hex.EncodeToString([]byte(name))] != hex.EncodeToString(sum[:]) {
				return fmt.Sprintf("python3 reads other bytes of %q", name)
			}
		}
	}
	if b.unzip != "" {
		cmd := exec.CommandContext(t.Context(), b.unzip, "-pq", file)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil || out.String() != inOrder {
			return fmt.Sprintf("unzip: %v, %d bytes of %d: %s", err, out.Len(), len(inOrder), said.String())
		}
	}
	return ""
}

// TestCat_DMP_03_differential: of packages that were damaged in all kinds of ways, none
// is accepted that other programs refuse, or of which they read other members.
func TestCat_DMP_03_differential(t *testing.T) {
	rounds := 3_000
	if n, err := strconv.Atoi(os.Getenv("INSTEP_PACKAGES")); err == nil {
		rounds = n
	}
	others := newBystanders(t)
	if others.python == nil && others.unzip == "" {
		t.Skip("SKIPPED: neither python3 nor unzip is installed")
	}
	file := filepath.Join(t.TempDir(), "package.zip")
	luck := rand.New(rand.NewPCG(6, 1))
	accepted := 0
	for i := range rounds {
		b := mutated(luck)
		contents, err := readAll(b)
		if err != nil {
			continue
		}
		accepted++
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if why := others.disagree(t, file, contents, inOrder(t, b)); why != "" {
			t.Fatalf("round %d: %s\n%q", i, why, b)
		}
	}
	t.Logf("%d of %d packages were accepted, and read alike", accepted, rounds)
	if accepted < rounds/50 {
		t.Errorf("got %d packages of %d accepted: too few to compare", accepted, rounds)
	}
}

// inOrder is all members, one after the other.
func inOrder(t *testing.T, b []byte) string {
	var all strings.Builder
	for m := range open(t, b).Members() {
		r, err := m.Open(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, r); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// mutated is a package of a few members in which something was changed, or not.
func mutated(luck *rand.Rand) []byte {
	z := rawZip{members: []rawMember{aManifest()}}
	for i := range luck.IntN(4) {
		z.members = append(z.members, rawMember{
			name: []string{"a", "a/b", "gr\xc3\xb6\xc3\x9fe", `c\d`, "e.txt"}[luck.IntN(5)] + strconv.Itoa(i), data: strings.Repeat("bytes ", luck.IntN(8)),
			deflated: luck.IntN(2) == 0, descriptor: luck.IntN(3) == 0, flags: uint16(luck.IntN(2)) << 11,
			extra: []string{"", "", "UT\x05\x00\x01abcd", "\x99\x99\x02\x00xy"}[luck.IntN(4)], attributes: luck.Uint32(),
		})
	}
	if luck.IntN(4) == 0 {
		z.middle = zip64End(len(z.members), nil)
	}
	if luck.IntN(4) == 0 {
		z.comment = "a comment"
	}
	b := z.bytes()
	for range luck.IntN(4) {
		b = mutate(b, luck)
	}
	return b
}

// mutate changes one thing: a bit, a byte, a number, or where bytes are. Most changes
// are to what says where things are.
func mutate(b []byte, luck *rand.Rand) []byte {
	if len(b) < 30 {
		return b
	}
	at := luck.IntN(len(b))
	if marks := marksIn(b); len(marks) > 0 && luck.IntN(4) > 0 {
		at = min(marks[luck.IntN(len(marks))]+luck.IntN(46), len(b)-1)
	}
	switch luck.IntN(8) {
	case 0, 1:
		b[at] ^= 1 << luck.IntN(8)
	case 2, 3:
		b[at] = []byte{0, 1, 0xff, 0x7f, 0x80, '/', '\\', byte(luck.Uint32())}[luck.IntN(8)]
	case 4:
		if at+4 <= len(b) {
			copy(b[at:], []string{"\xff\xff\xff\xff", "\x00\x00\x00\x00", "PK\x05\x06", "PK\x01\x02", "PK\x03\x04", "PK\x07\x08"}[luck.IntN(6)])
		}
	case 5:
		return slices.Insert(b, at, make([]byte, 1+luck.IntN(8))...)
	case 6:
		return slices.Delete(b, at, min(at+1+luck.IntN(8), len(b)))
	case 7:
		from := luck.IntN(len(b))
		return slices.Insert(b, at, bytes.Clone(b[from:min(from+luck.IntN(80), len(b))])...)
	}
	return b
}

// marksIn is where records begin.
func marksIn(b []byte) (marks []int) {
	for i := range len(b) - 4 {
		if b[i] == 'P' && b[i+1] == 'K' && b[i+2] < 8 && b[i+3] < 9 {
			marks = append(marks, i)
		}
	}
	return marks
}
