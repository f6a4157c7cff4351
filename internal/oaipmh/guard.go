package oaipmh

import (
	"fmt"
	"hash/maphash"
)

// Limits of a list.
const (
	maxPages      = 10_000_000 // answers
	maxEmptyPages = 50         // consecutive responses without a record
)

// LoopError reports that the resumption tokens of a list repeat or make no progress.
type LoopError struct {
	URL string // URL of the response at which the loop was detected
	Msg string
}

func (e *LoopError) Error() string {
	return fmt.Sprintf("%s: the list cannot be read to its end: %s", e.URL, e.Msg)
}

// guard detects resumption tokens that form a cycle or make no progress. It stores two
// tokens and one digest, however long the list is: the stored token is replaced after a
// number of pages that doubles each time (Brent's algorithm), so that a cycle is found
// within three rounds.
type guard struct {
	pages, empty int
	kept         string
	next         int // number of pages until the next token is stored
	last         uint64
	repeated     int
	hash         maphash.Hash
}

// maxRepeated is the largest number of consecutive responses with the same records.
const maxRepeated = 3

// take checks the next page of a list.
func (g *guard) take(p *Page) error {
	g.pages++
	if len(p.Token) > MaxToken {
		return &LoopError{p.URL, fmt.Sprintf("expected a resumption token of at most %d bytes, found %d", MaxToken, len(p.Token))}
	}
	if p.Token == "" {
		return nil
	}
	switch {
	case p.Token == g.kept:
		return &LoopError{p.URL, fmt.Sprintf("the resumption token %q came before", cut(p.Token))}
	case g.pages >= maxPages:
		return &LoopError{p.URL, fmt.Sprintf("expected at most %d answers", maxPages)}
	}
	if g.pages >= g.next {
		g.kept, g.next = p.Token, 2*g.pages
	}
	return g.content(p)
}

// content detects responses without new records.
func (g *guard) content(p *Page) error {
	if g.empty++; len(p.Records)+len(p.Bad) > 0 {
		g.empty = 0
	}
	if g.empty > maxEmptyPages {
		return &LoopError{p.URL, fmt.Sprintf("%d answers in a row had no record", g.empty)}
	}
	if len(p.Records) == 0 {
		return nil
	}
	g.hash.Reset()
	for i := range p.Records {
		_, _ = g.hash.WriteString(p.Records[i].Identifier) // a Hash never fails
		_ = g.hash.WriteByte(0)
	}
	if sum := g.hash.Sum64(); sum == g.last {
		if g.repeated++; g.repeated == maxRepeated {
			return &LoopError{p.URL, fmt.Sprintf("%d answers in a row had the same records", g.repeated+1)}
		}
	} else {
		g.last, g.repeated = sum, 0
	}
	return nil
}
