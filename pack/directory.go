package pack

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Signatures of the records of a ZIP file, and the sizes in bytes of the fixed parts of
// these records (APPNOTE.TXT 6.3.10 §4.3).
const (
	localSignature      = "PK\x03\x04"
	descriptorSignature = "PK\x07\x08"
	centralSignature    = "PK\x01\x02"
	end64Signature      = "PK\x06\x06"
	locatorSignature    = "PK\x06\x07"
	endSignature        = "PK\x05\x06"

	localSize   = 30
	centralSize = 46
	end64Size   = 56
	locatorSize = 20
	endSize     = 22

	maxComment    = math.MaxUint16
	maxExtra      = math.MaxUint16
	maxDescriptor = 24
)

// Values of 16-bit and 32-bit fields which mean that the real number is in a field for 64-bit
// numbers.
const (
	in64entries = math.MaxUint16
	in64        = math.MaxUint32
)

// Flags and compression methods of a member (APPNOTE.TXT §4.4.4, §4.4.5).
const (
	flagEncrypted  = 1 << 0
	flagDescriptor = 1 << 3
	flagUTF8       = 1 << 11
	flagsKnown     = flagDescriptor | flagUTF8 | 1<<1 | 1<<2 // bits 1 and 2 state the level of compression

	methodStore   = 0
	methodDeflate = 8

	newestVersion = 45 // version 4.5 of the ZIP format, which introduced 64-bit numbers
)

// end has the content of the records after the directory of a ZIP file.
type end struct {
	entries uint64
	size    int64 // size of the directory in bytes
	offset  int64 // offset of the directory, as the end record states it
	at      int64 // real offset of the first record after the directory
}

// member is an entry of the directory of a ZIP file.
type member struct {
	name         string // as written
	offset, next int64  // offset of the member's local header, and offset of the next member or of the directory
	packed, size int64  // number of the member's bytes before and after decompression
	crc          uint32
	flags        uint16
	method       uint16
}

func (m *member) isDirectory() bool { return strings.HasSuffix(m.name, "/") }

// damaged returns an error that wraps ErrNotZIP.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotZIP, fmt.Errorf(format, args...))
}

// readAt returns an error if the file ends before n bytes are read.
func (p *Package) readAt(off, n int64) ([]byte, error) {
	b := make([]byte, n)
	got, err := p.r.ReadAt(b, off)
	if got == len(b) {
		return b, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil, damaged("the file ends at offset %d", off+int64(got))
	}
	return nil, err
}

func (p *Package) readEnd(size int64) (end, error) {
	window := min(size, endSize+maxComment)
	if window < endSize {
		return end{}, damaged("the file has %[2]d bytes; a ZIP file has at least %[1]d", endSize, size)
	}
	tail, err := p.readTail(size, window)
	if err != nil {
		return end{}, err
	}
	at := bytes.LastIndex(tail, []byte(endSignature))
	if at < 0 || len(tail)-at < endSize {
		return end{}, damaged("the file has no directory at its end")
	}
	rec := tail[at:]
	le := binary.LittleEndian
	if comment := int(le.Uint16(rec[20:])); comment != len(rec)-endSize {
		if comment > len(rec)-endSize {
			return end{}, damaged("the end of the file is missing")
		}
		if err := p.flaw("%d bytes follow the end of the ZIP file", len(rec)-endSize-comment); err != nil {
			return end{}, err
		}
	}
	e := end{
		entries: uint64(le.Uint16(rec[10:])), size: int64(le.Uint32(rec[12:])), offset: int64(le.Uint32(rec[16:])),
		at: size - int64(len(rec)),
	}
	if disk, first, here := le.Uint16(rec[4:]), le.Uint16(rec[6:]), le.Uint16(rec[8:]); disk != 0 || first != 0 || uint64(here) != e.entries {
		return end{}, damaged("the ZIP file is divided into several files")
	}
	if at >= locatorSize {
		rec = tail[at-locatorSize : at]
	} else if rec, err = p.readAt(max(e.at-locatorSize, 0), min(locatorSize, e.at)); err != nil {
		return end{}, err
	}
	if !bytes.HasPrefix(rec, []byte(locatorSignature)) || len(rec) < locatorSize {
		return e, nil
	}
	return p.readEnd64(e, rec)
}

// smallTail is the number of bytes that are read first at the end of a file. They contain the
// end record unless the file has a long comment, which is rare.
const smallTail = 1 << 10

// readTail returns the last smallTail bytes of a file if these contain an end record, and
// otherwise the last largeTail bytes.
func (p *Package) readTail(size, largeTail int64) ([]byte, error) {
	n := min(largeTail, smallTail)
	b, err := p.readAt(size-n, n)
	if err != nil || n == largeTail || bytes.Contains(b, []byte(endSignature)) {
		return b, err
	}
	return p.readAt(size-largeTail, largeTail)
}

// readEnd64 reads the end record of 64-bit numbers, which states the numbers that need more
// than 32 bits.
func (p *Package) readEnd64(e end, locator []byte) (end, error) {
	le := binary.LittleEndian
	at := e.at - locatorSize - end64Size
	if at < 0 || le.Uint32(locator[4:]) != 0 || le.Uint64(locator[8:]) != uint64(at) || le.Uint32(locator[16:]) != 1 {
		return end{}, damaged("the end record of 64-bit numbers is not before its locator")
	}
	rec, err := p.readAt(at, end64Size)
	if err != nil {
		return end{}, err
	}
	if !bytes.HasPrefix(rec, []byte(end64Signature)) || le.Uint64(rec[4:]) != end64Size-12 || le.Uint32(rec[16:]) != 0 || le.Uint32(rec[20:]) != 0 {
		return end{}, damaged("the end record of 64-bit numbers is invalid")
	}
	here, entries, size, offset := le.Uint64(rec[24:]), le.Uint64(rec[32:]), le.Uint64(rec[40:]), le.Uint64(rec[48:])
	agree := func(small, large, in64 uint64) bool { return small == in64 || small == large }
	if here != entries || !agree(e.entries, entries, in64entries) || !agree(uint64(e.size), size, in64) || !agree(uint64(e.offset), offset, in64) {
		return end{}, damaged("the records at the end of the file contradict each other")
	}
	if size > uint64(at) || offset > uint64(at) {
		return end{}, damaged("the directory does not fit before the end record")
	}
	return end{entries, int64(size), int64(offset), at}, nil
}

func (p *Package) readDirectory(e end) error {
	switch {
	case e.entries > uint64(p.lim.Members):
		return fmt.Errorf("%w: expected at most %d members, got %d", ErrLimit, p.lim.Members, e.entries)
	case e.size > p.lim.Directory:
		return fmt.Errorf("%w: expected a directory of at most %d bytes, got %d", ErrLimit, p.lim.Directory, e.size)
	case e.size > e.at || e.offset > e.at-e.size:
		return damaged("the directory does not fit before the end record")
	case e.entries > uint64(e.size)/centralSize:
		return damaged("a directory of %d bytes has no room for %d members", e.size, e.entries)
	}
	shift := e.at - e.size - e.offset // the real offset of the directory minus the stated offset
	if shift > 0 {
		if err := p.flaw("%d unused bytes are before the members or before the end record", shift); err != nil {
			return err
		}
	}
	b, err := p.readAt(e.at-e.size, e.size)
	if err != nil {
		return err
	}
	text := string(b) // the names of all members are substrings of this text, which saves memory
	p.members = make([]member, 0, e.entries)
	var total uint64
	pos := 0
	for range e.entries {
		m, n, err := p.parseEntry(b[pos:], text[pos:])
		if err != nil {
			return err
		}
		if total += uint64(m.size); total > uint64(p.lim.Total) {
			return fmt.Errorf("%w: the members have more than %d bytes in total", ErrLimit, p.lim.Total)
		}
		if m.offset > e.at {
			return damaged("%q: the member begins after the directory", m.name)
		}
		m.offset += shift
		if err := p.addName(m.name, len(p.members)); err != nil {
			return err
		}
		p.members = append(p.members, m)
		pos += n
	}
	if pos != len(b) {
		return p.flaw("the directory has %d bytes after the last entry", len(b)-pos)
	}
	return nil
}

// parseEntry parses the entry of the directory at the start of b, and returns its length in
// bytes. The string text must have the same bytes as b.
func (p *Package) parseEntry(b []byte, text string) (m member, n int, err error) {
	if len(b) < centralSize || !bytes.HasPrefix(b, []byte(centralSignature)) {
		return m, 0, damaged("the directory lacks %d entries", cap(p.members)-len(p.members))
	}
	le := binary.LittleEndian
	nameEnd := centralSize + int(le.Uint16(b[28:]))
	extraEnd := nameEnd + int(le.Uint16(b[30:]))
	if n = extraEnd + int(le.Uint16(b[32:])); n > len(b) {
		return m, 0, damaged("the last entry of the directory is incomplete")
	}
	m = member{
		name: text[centralSize:nameEnd], flags: le.Uint16(b[8:]), method: le.Uint16(b[10:]), crc: le.Uint32(b[16:]),
		packed: int64(le.Uint32(b[20:])), size: int64(le.Uint32(b[24:])), offset: int64(le.Uint32(b[42:])),
	}
	ex, err := parseExtra(b[nameEnd:extraEnd])
	if err == nil {
		err = ex.replace64(&m.size, &m.packed, &m.offset)
	}
	if err != nil {
		return m, 0, damaged("%q: %w", m.name, err)
	}
	if le.Uint16(b[34:]) != 0 {
		return m, 0, damaged("%q: the member is in another file", m.name)
	}
	if v := le.Uint16(b[6:]); v > newestVersion {
		if err := p.flaw("%q: the member needs version %d.%d of the format, expected at most 4.5", m.name, v/10, v%10); err != nil {
			return m, 0, err
		}
	}
	if err := p.checkMember(&m, ex); err != nil {
		return m, 0, err
	}
	return m, n, p.checkRatio(&m)
}

// checkMember returns an error if programs could read the directory entry of a member in
// different ways, unless Limits.Tolerant is set.
func (p *Package) checkMember(m *member, ex extra) error {
	switch {
	case m.flags&flagEncrypted != 0:
		return p.flaw("%q: %w", m.name, errEncrypted)
	case m.name == "" || strings.IndexByte(m.name, 0) >= 0:
		return p.flaw("%q: some programs cut this name at a zero byte, or the name is empty", m.name)
	case m.flags&flagUTF8 != 0 && !utf8.ValidString(m.name):
		return p.flaw("%q: the name is marked as UTF-8, but is invalid UTF-8", m.name)
	case ex.name != "" && ex.name != m.name:
		return p.flaw("%q: the member has another name, %q, for programs that know Unicode", m.name, ex.name)
	case m.flags&^flagsKnown != 0:
		return p.flaw("%q: the member has unknown flags, %#04x", m.name, m.flags)
	case m.method != methodStore && m.method != methodDeflate:
		return p.flaw("%q: %w", m.name, &methodError{m.method})
	case m.method == methodStore && m.packed != m.size:
		return p.flaw("%q: the member is stored without compression, but as %d bytes instead of %d", m.name, m.packed, m.size)
	case m.isDirectory() && m.size != 0:
		return p.flaw("%q: a directory must not have any bytes", m.name)
	}
	return nil
}

// The ratio of a member's decompressed size to its compressed size must be less than
// maxRatio if the member has more than hugeSize bytes. DEFLATE never has a ratio of more
// than bestRatio.
const (
	hugeSize  = 1 << 30
	maxRatio  = 200
	bestRatio = 1032
)

func (p *Package) checkRatio(m *member) error {
	switch {
	case m.size > hugeSize && m.size/maxRatio >= m.packed:
		return fmt.Errorf("%w: %q: %d bytes are compressed to %d; expected a ratio of less than %d", ErrLimit, m.name, m.size, m.packed, maxRatio)
	case m.method == methodDeflate && m.size/bestRatio > m.packed:
		return damaged("%q: DEFLATE cannot compress %d bytes to %d", m.name, m.size, m.packed)
	}
	return nil
}

func (p *Package) addName(name string, i int) error {
	plain := plainName(name)
	if _, taken := p.names[plain]; taken {
		return p.flaw("two members have the name %q", name)
	}
	p.names[plain] = i
	return nil
}

// checkLayout checks that the members fill the file from its start to the directory. It
// allows a gap of about 64 KiB after each member, because the length of a member's local
// header is unknown until the member is read.
func (p *Package) checkLayout(e end) error {
	order := make([]*member, len(p.members))
	for i := range p.members {
		order[i] = &p.members[i]
	}
	slices.SortFunc(order, func(a, b *member) int { return cmp.Compare(a.offset, b.offset) })
	pos, previous, slack := int64(0), "the beginning", int64(0)
	for _, m := range order {
		if err := p.checkGap(pos, m.offset, slack, previous, m.name); err != nil {
			return err
		}
		pos, previous, slack = m.offset+localSize+int64(len(m.name)), m.name, maxExtra
		if m.packed > e.at-pos {
			return damaged("%q: the bytes of the member do not fit before the directory", m.name)
		}
		if pos += m.packed; m.flags&flagDescriptor != 0 {
			slack += maxDescriptor
		}
	}
	directory := e.at - e.size
	for i, m := range order {
		m.next = directory
		if i+1 < len(order) {
			m.next = order[i+1].offset
		}
	}
	return p.checkGap(pos, directory, slack, previous, "the directory")
}

// checkGap checks that two records in a row do not overlap, and that there are at most slack
// bytes between them.
func (p *Package) checkGap(firstEnd, secondStart, slack int64, first, second string) error {
	switch {
	case firstEnd > secondStart:
		return p.flaw("%q and %q overlap", first, second)
	case secondStart-firstEnd > slack:
		return p.flaw("%d unused bytes are between %q and %q", secondStart-firstEnd, first, second)
	}
	return nil
}

// extra has the values of the extra fields that this package uses (APPNOTE.TXT §4.5).
type extra struct {
	zip64 []byte // 64-bit values
	name  string // name of the member for programs that know Unicode; may be ""
}

const (
	extraZIP64   = 0x0001
	extraUnicode = 0x7075
)

func parseExtra(b []byte) (ex extra, err error) {
	for len(b) > 0 {
		if len(b) < 4 {
			return ex, errors.New("the extra fields are incomplete")
		}
		id, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		if b = b[4:]; n > len(b) {
			return ex, errors.New("the extra fields are incomplete")
		}
		switch {
		case id == extraZIP64 && ex.zip64 != nil, id == extraUnicode && ex.name != "":
			return ex, fmt.Errorf("the extra field %#04x occurs twice", id)
		case id == extraZIP64:
			ex.zip64 = b[:n:n]
		case id == extraUnicode && n > 5: // the name follows a version number of 1 byte and a checksum of 4 bytes
			ex.name = string(b[5:n])
		}
		b = b[n:]
	}
	return ex, nil
}

// replace64 replaces each value that is 0xffffffff by the next number in the extra field,
// because that value means that the real number needs 64 bits.
func (ex *extra) replace64(values ...*int64) error {
	rest := ex.zip64
	for _, v := range values {
		if *v != in64 {
			continue
		}
		if len(rest) < 8 {
			return errors.New("a 64-bit number is missing in the extra fields")
		}
		n := binary.LittleEndian.Uint64(rest)
		if n > math.MaxInt64 {
			return fmt.Errorf("a size or offset of %d bytes is too large for any file", n)
		}
		*v, rest = int64(n), rest[8:]
	}
	return nil
}

// plainName returns a name in the form in which names are compared: without slashes at the
// start and the end, without "." and empty segments, and with slashes instead of backslashes.
func plainName(name string) string {
	if isPlain(name) {
		return name
	}
	return strings.Join(segments(name), "/")
}

// segments splits a name at slashes and backslashes. It leaves out "." and empty segments.
func segments(name string) []string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' })
	return slices.DeleteFunc(parts, func(s string) bool { return s == "." })
}

func isPlain(name string) bool {
	return name != "" && name[0] != '/' && name[len(name)-1] != '/' && name != "." && !strings.HasPrefix(name, "./") && !strings.HasSuffix(name, "/.") &&
		!strings.Contains(name, `\`) && !strings.Contains(name, "//") && !strings.Contains(name, "/./")
}

var errEncrypted = errors.New("the member is encrypted")

type methodError struct{ method uint16 }

func (e *methodError) Error() string {
	return fmt.Sprintf("the member is compressed by method %d; expected 0 (stored) or 8 (DEFLATE)", e.method)
}
