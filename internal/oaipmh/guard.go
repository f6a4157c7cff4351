package oaipmh

import (
	"fmt"
	"hash/maphash"
)

// A list that exceeds one of these limits counts as endless.
const (
	maxPages      = 10_000_000 // largest number of responses of one list
	maxEmptyPages = 50         // largest number of responses in a row without a record
)

// LoopError means that a list never ends, because its resumption tokens repeat or its
// responses have no new records.
type LoopError struct {
	URL string // URL of the response in which the loop was detected
	Msg string
}

func (e *LoopError) Error() string {
	return fmt.Sprintf("%s: the list cannot be read to its end: %s", e.URL, e.Msg)
}

// guard detects lists that never end. It needs constant memory: it compares each
// resumption token with one earlier token, and replaces that token after 1, 2, 4, 8 and
// so on responses (Brent's algorithm).
type guard struct {
	pages, empty int
	kept         string
	replaceAt    int // number of the response at which the stored resumption token is replaced by a new one
	last         uint64
	repeated     int
	hash         maphash.Hash
}

// maxRepeated is the number of repetitions of the same records after which a list
// counts as endless.
const maxRepeated = 3

func (g *guard) check(p *Page) error {
	g.pages++
	if len(p.Token) > MaxToken {
		return &LoopError{p.URL, fmt.Sprintf("expected a resumption token of at most %d bytes, found %d", MaxToken, len(p.Token))}
	}
	if p.Token == "" {
		return nil
	}
	switch {
	case p.Token == g.kept:
		return &LoopError{p.URL, fmt.Sprintf("the resumption token %q is repeated", shorten(p.Token))}
	case g.pages >= maxPages:
		return &LoopError{p.URL, fmt.Sprintf("expected at most %d responses", maxPages)}
	}
	if g.pages >= g.replaceAt {
		g.kept, g.replaceAt = p.Token, 2*g.pages
	}
	return g.checkRecords(p)
}

// checkRecords returns an error if too many responses in a row have no records, or the
// same records.
func (g *guard) checkRecords(p *Page) error {
	if g.empty++; len(p.Records)+len(p.Bad) > 0 {
		g.empty = 0
	}
	if g.empty > maxEmptyPages {
		return &LoopError{p.URL, fmt.Sprintf("%d responses in a row have no record", g.empty)}
	}
	if len(p.Records) == 0 {
		return nil
	}
	g.hash.Reset()
	for i := range p.Records {
		_, _ = g.hash.WriteString(p.Records[i].Identifier) // no error: a write to a Hash never fails
		_ = g.hash.WriteByte(0)
	}
	if sum := g.hash.Sum64(); sum == g.last {
		if g.repeated++; g.repeated == maxRepeated {
			return &LoopError{p.URL, fmt.Sprintf("%d responses in a row have the same records", g.repeated+1)}
		}
	} else {
		g.last, g.repeated = sum, 0
	}
	return nil
}
