package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"instep/lint"
	"instep/lint/inputs"
)

// place is the position of a finding in a document. Lines, and columns in bytes, count from 1.
// Column 0 means that the column is unknown.
type place struct{ line, column int }

// excerpt is a part of a line of a document, without control characters.
type excerpt struct {
	text  string
	caret int // number of characters before the finding; -1 if the column of the finding is unknown
}

const (
	excerptBefore = 60 // the number of bytes that are shown before a finding
	excerptAfter  = 60
)

// sourceLines returns the text around the findings, to show it to people. It leaves out lines that
// it cannot read, such as those of a document in UTF-16.
func sourceLines(in *inputs.Input, findings []lint.Finding) map[place]excerpt {
	found := map[place]excerpt{}
	if in.Open == nil {
		return found
	}
	var wanted []place
	for _, f := range findings {
		if f.Line > 0 {
			wanted = append(wanted, place{f.Line, f.Column})
		}
	}
	slices.SortFunc(wanted, func(a, b place) int { return cmp.Or(a.line-b.line, a.column-b.column) })
	r, err := in.Open()
	if err != nil {
		return found
	}
	defer r.Close()
	s := newLineScanner(r)
	for _, p := range slices.Compact(wanted) {
		e, err := s.excerptAt(place{p.line, max(p.column, 1)})
		if err != nil {
			break
		}
		if p.column == 0 {
			e = excerpt{strings.TrimSpace(e.text), -1}
		}
		if e.text != "" {
			found[p] = e
		}
	}
	return found
}

// lineScanner reads a text line by line, forward only.
type lineScanner struct {
	r    *bufio.Reader
	line int // from 1
	col  int // the column of the byte that is read next, counted from 1
}

func newLineScanner(r io.Reader) *lineScanner {
	br := bufio.NewReader(r)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if zr, err := gzip.NewReader(br); err == nil {
			br = bufio.NewReader(zr)
		}
	}
	if mark, _ := br.Peek(3); string(mark) == "\ufeff" {
		_, _ = br.Discard(3) // the error is ignored: Discard cannot fail, since Peek has read these bytes
	}
	return &lineScanner{r: br, line: 1, col: 1}
}

var errPassed = errors.New("the document changed while it was checked")

// excerptAt returns the text around a place. Each place must be after the place of the previous
// call.
func (s *lineScanner) excerptAt(p place) (excerpt, error) {
	for s.line < p.line {
		switch _, err := s.r.ReadSlice('\n'); {
		case err == nil:
			s.line, s.col = s.line+1, 1
		case !errors.Is(err, bufio.ErrBufferFull): // the line is longer than the buffer, and the loop reads the rest of it
			return excerpt{}, err
		}
	}
	if skip := p.column - excerptBefore - s.col; skip > 0 {
		n, err := s.r.Discard(skip)
		s.col += n
		if err != nil {
			return excerpt{}, err
		}
	}
	before := p.column - s.col
	if before < 0 {
		return excerpt{}, errPassed
	}
	text, err := s.r.Peek(before + excerptAfter)
	if err != nil && err != io.EOF {
		return excerpt{}, err
	}
	rest, _, whole := bytes.Cut(text[min(before, len(text)):], []byte("\n"))
	return cutOut(text[:min(before, len(text))], rest, s.col > 1, !whole && err == nil), nil
}

// cutOut joins the bytes before and after a place in a line. moreBefore and moreAfter say whether
// the line has further bytes at the beginning and at the end.
func cutOut(before, after []byte, moreBefore, moreAfter bool) excerpt {
	for moreBefore && len(before) > 0 && !utf8.RuneStart(before[0]) {
		before = before[1:]
	}
	for cut := 0; moreAfter && cut < utf8.UTFMax && len(after) > 0 && !utf8.Valid(after); cut++ {
		after = after[:len(after)-1]
	}
	if len(after) == 0 || !utf8.Valid(before) || !utf8.Valid(after) || bytes.IndexByte(before, '\n') >= 0 {
		return excerpt{}
	}
	lead := excerptOf(before)
	if moreBefore {
		lead = "…" + lead
	} else {
		lead = strings.TrimLeft(lead, " ")
	}
	tail := strings.TrimRight(excerptOf(after), " ")
	if moreAfter {
		tail += "…"
	}
	return excerpt{lead + tail, utf8.RuneCountInString(lead)}
}

// excerptOf replaces a tab by one space, so that the caret below the excerpt stands at the right
// column.
func excerptOf(b []byte) string {
	text := strings.TrimSuffix(string(b), "\r")
	return printable(strings.ReplaceAll(text, "\t", " "))
}
