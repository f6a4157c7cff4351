package pack_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/flate"
)

// rawMember is a member of a ZIP file that says what a test wants it to.
type rawMember struct {
	name       string
	data       string
	deflated   bool
	flags      uint16
	attributes uint32 // external: the mode of a file in its upper half
	extra      string // of both headers
	descriptor bool   // sizes follow the bytes
	hidden     bool   // not in the directory

	local   func(header []byte)  // changes the local header before it is written
	central func(line []byte)    // changes the line of the directory
	packed  func([]byte) []byte  // changes the bytes as they are in the file
	follow  func([]byte) []byte  // changes the descriptor
	rename  func(string) string  // of the local header
	offset  func(own int) uint32 // where the directory says that it begins
}

// rawZip is a ZIP file that is put together byte by byte.
type rawZip struct {
	before  string // bytes before the first member, which offsets do not count
	members []rawMember
	between string // the last member and the directory
	after   string // after the end
	comment string
	end     func(record []byte)                  // changes the last record
	middle  func(directory, size int) (b []byte) // written between the directory and the last record
}

var le = binary.LittleEndian

func (z rawZip) bytes() []byte {
	b := []byte(z.before)
	var directory []byte
	count := 0
	for i := range z.members {
		var line []byte
		b, line = z.members[i].append(b, len(z.before))
		if !z.members[i].hidden {
			directory = append(directory, line...)
			count++
		}
	}
	b = append(b, z.between...)
	at := len(b) - len(z.before)
	b = append(b, directory...)
	if z.middle != nil {
		b = append(b, z.middle(at, len(directory))...)
	}
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	le.PutUint16(end[8:], uint16(count))
	le.PutUint16(end[10:], uint16(count))
	le.PutUint32(end[12:], uint32(len(directory)))
	le.PutUint32(end[16:], uint32(at))
	le.PutUint16(end[20:], uint16(len(z.comment)))
	if z.end != nil {
		z.end(end)
	}
	b = append(append(b, end...), z.comment...)
	return append(b, z.after...)
}

// append writes a member to b, whose offsets count from base; line is what the
// directory says of it.
func (m *rawMember) append(b []byte, base int) (all, line []byte) {
	method, packed := uint16(0), []byte(m.data)
	if m.deflated {
		method, packed = 8, deflate(packed)
	}
	if m.packed != nil {
		packed = m.packed(packed)
	}
	flags := m.flags
	if m.descriptor {
		flags |= 8
	}
	sizes := make([]byte, 12)
	le.PutUint32(sizes, crc32.ChecksumIEEE([]byte(m.data)))
	le.PutUint32(sizes[4:], uint32(len(packed)))
	le.PutUint32(sizes[8:], uint32(len(m.data)))

	local := make([]byte, 30)
	copy(local, "PK\x03\x04\x14\x00")
	le.PutUint16(local[6:], flags)
	le.PutUint16(local[8:], method)
	if !m.descriptor {
		copy(local[14:], sizes)
	}
	name := m.name
	if m.rename != nil {
		name = m.rename(name)
	}
	le.PutUint16(local[26:], uint16(len(name)))
	le.PutUint16(local[28:], uint16(len(m.extra)))

	line = make([]byte, 46)
	copy(line, "PK\x01\x02\x14\x03\x14\x00")
	le.PutUint16(line[8:], flags)
	le.PutUint16(line[10:], method)
	copy(line[16:], sizes)
	le.PutUint16(line[28:], uint16(len(m.name)))
	le.PutUint16(line[30:], uint16(len(m.extra)))
	le.PutUint32(line[38:], m.attributes)
	offset := uint32(len(b) - base)
	if m.offset != nil {
		offset = m.offset(len(b) - base)
	}
	le.PutUint32(line[42:], offset)

	if m.local != nil {
		m.local(local)
	}
	if m.central != nil {
		m.central(line)
	}
	b = append(append(append(append(b, local...), name...), m.extra...), packed...)
	if m.descriptor {
		after := append([]byte("PK\x07\x08"), sizes...)
		if m.follow != nil {
			after = m.follow(after)
		}
		b = append(b, after...)
	}
	return b, append(append(line, m.name...), m.extra...)
}

func deflate(b []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // there is nothing that could fail
	}
	return out.Bytes()
}

// aManifest is a manifest as the first member of a package.
func aManifest() rawMember { return rawMember{name: "manifest.xml", data: manifest, deflated: true} }

// withMembers is a package of a manifest and these members.
func withMembers(members ...rawMember) rawZip {
	return rawZip{members: append([]rawMember{aManifest()}, members...)}
}

// zip64End is the record of 64 bits and its locator, changed by set.
func zip64End(count int, set func(record, locator []byte)) func(directory, size int) []byte {
	return func(directory, size int) []byte {
		record, locator := make([]byte, 56), make([]byte, 20)
		copy(record, "PK\x06\x06")
		le.PutUint64(record[4:], 44)
		le.PutUint16(record[12:], 45)
		le.PutUint16(record[14:], 45)
		le.PutUint64(record[24:], uint64(count))
		le.PutUint64(record[32:], uint64(count))
		le.PutUint64(record[40:], uint64(size))
		le.PutUint64(record[48:], uint64(directory))
		copy(locator, "PK\x06\x07")
		le.PutUint64(locator[8:], uint64(directory+size))
		le.PutUint32(locator[16:], 1)
		if set != nil {
			set(record, locator)
		}
		return append(record, locator...)
	}
}

func TestRawZipIsAccepted(t *testing.T) {
	zip64extra := "\x01\x00\x10\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00"
	in64 := func(at int) func([]byte) {
		return func(b []byte) { copy(b[at:], "\xff\xff\xff\xff\xff\xff\xff\xff") }
	}
	for name, z := range map[string]rawZip{
		"stored and deflated":            withMembers(rawMember{name: "a", data: "bytes"}, rawMember{name: "b/c", data: "bytes of c", deflated: true}),
		"empty members":                  withMembers(rawMember{name: "a"}, rawMember{name: "b", deflated: true}),
		"a directory":                    withMembers(rawMember{name: "d/"}, rawMember{name: "d/a", data: "bytes"}),
		"descriptors":                    withMembers(rawMember{name: "a", data: "bytes", deflated: true, descriptor: true}, rawMember{name: "b", deflated: true, descriptor: true}),
		"a descriptor without signature": withMembers(rawMember{name: "a", data: "bytes", deflated: true, descriptor: true, follow: func(b []byte) []byte { return b[4:] }}),
		"a comment":                      {members: []rawMember{aManifest()}, comment: "made by hand"},
		"sizes of 64 bits":               withMembers(rawMember{name: "a", data: "bytes", extra: zip64extra, local: in64(18), central: in64(20)}),
		"an end of 64 bits":              {members: []rawMember{aManifest()}, middle: zip64End(1, nil), end: func(b []byte) { copy(b[8:20], bytes.Repeat([]byte{255}, 12)) }},
		"an end of 64 bits, for nothing": {members: []rawMember{aManifest()}, middle: zip64End(1, nil)},
		"other extra fields":             withMembers(rawMember{name: "a", data: "bytes", extra: "UT\x05\x00\x01abcd"}),
		"a name in UTF-8":                withMembers(rawMember{name: "größe", data: "bytes", flags: 1 << 11}),
	} {
		t.Run(name, func(t *testing.T) {
			b := z.bytes()
			got, err := readAll(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range z.members {
				if got[m.name] != m.data {
					t.Errorf("%q: got %q, want %q", m.name, got[m.name], m.data)
				}
			}
			acceptedByOthers(t, b)
		})
	}
}
