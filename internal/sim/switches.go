package sim

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Switch is one kind of misbehaviour of a Source.
type Switch struct {
	Name  string  // number of a quirk, or name of a fault
	Says  string  // description of the effect
	Rows  string  // identifiers of the rows in the catalogue of faults; "" for a quirk, which is not a fault
	Share float64 // default fraction of the targets that the Switch affects
	Of    Scope   // what the targets are: responses or resources

	inbound func(*call)                       // changes the request
	route   func(*call) *answer               // answers requests for a path that does not exist otherwise; a nil answer passes the request on
	doc     func(*call, Switched, *document)  // changes a document
	raw     func(c *call, text []byte) []byte // changes the bytes of a document
	answer  func(*call, *answer)              // changes any answer

	kinds  []string // kinds of documents to which cache and status apply
	cache  bool     // a cache answers with an earlier generation
	status int      // the Source answers with this status
	hard   bool     // caches also answer requests with Cache-Control: no-cache
	clock  shift    // time by which the Source's clock is ahead
}

// Scope says what the targets of a Switch are, of which its share is a fraction.
type Scope string

// The scopes.
const (
	Always  Scope = "always"  // every target is affected
	Answers Scope = "answers" // each response is affected with the same probability
	Entries Scope = "entries" // a resource is either always affected or never
)

// Switched is a Switch that is on, with its share.
type Switched struct {
	*Switch
	Share float64 // above 0, at most 1
}

// Switches returns all switches: first the quirks by number, then the faults.
func Switches() []*Switch { return slices.Concat(quirks, faults) }

// hits decides at random whether a response is affected.
func (sw Switched) hits(c *call) bool { return sw.Of != Answers || c.luck.Float64() < sw.Share }

// has reports whether the resource with a URI is affected. The result is always the same
// for a URI.
func (sw Switched) has(uri string) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, sw.Name+" "+uri) // writing to a hash never fails
	return unit(mix(h.Sum64())) <= sw.Share
}

// each calls a function for the affected entries.
func (sw Switched) each(d *document, change func(entry)) {
	for _, e := range d.entries {
		if sw.has(e.loc()) {
			change(e)
		}
	}
}

// ParseQuirks parses comma-separated numbers of quirks.
func ParseQuirks(list string) ([]Switched, error) { return parse(list, "quirk", quirks) }

// ParseFaults parses comma-separated names of faults, each optionally with its share:
// truncate,http-500=2%.
func ParseFaults(list string) ([]Switched, error) { return parse(list, "fault", faults) }

// ParseSwitches parses numbers of quirks and names of faults together.
func ParseSwitches(list string) ([]Switched, error) { return parse(list, "quirk or fault", Switches()) }

func parse(list, what string, all []*Switch) ([]Switched, error) {
	var on []Switched
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, share, given := strings.Cut(item, "=")
		i := slices.IndexFunc(all, func(s *Switch) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no %s %q (--list names them)", what, name)
		}
		sw := Switched{all[i], all[i].Share}
		if sw.Of == Always {
			sw.Share = 1
		}
		if given {
			var err error
			if sw.Share, err = parseShare(share); err != nil || sw.Of == Always && sw.Share != 1 {
				return nil, fmt.Errorf("%s %q: expected a share such as 2%%, and only for a switch for which --list shows one, found %q", what, name, share)
			}
		}
		on = append(on, sw)
	}
	return on, nil
}

// parseShare parses a percentage above 0.
func parseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf("expected a percentage above 0, found %q", s)
	}
	return percent / 100, nil
}

// rewrite applies the switches that change documents to a document.
func (c *call) rewrite(a *answer) error {
	var docs, raws []Switched
	for _, sw := range c.switches {
		if a.document && (sw.doc != nil || sw.raw != nil) && sw.hits(c) {
			if sw.doc != nil {
				docs = append(docs, sw)
			}
			if sw.raw != nil {
				raws = append(raws, sw)
			}
		}
	}
	if len(docs)+len(raws) == 0 && (c.observe == nil || !a.document) {
		return nil
	}
	select {
	case c.rewrites <- struct{}{}:
		defer func() { <-c.rewrites }()
	case <-c.r.Context().Done():
		return c.r.Context().Err()
	}
	text, err := io.ReadAll(a.body)
	if err != nil {
		return err
	}
	if len(docs) > 0 || c.observe != nil {
		if text, err = c.rewritten(docs, text); err != nil {
			return err
		}
	}
	for _, sw := range raws {
		text = sw.raw(c, text)
	}
	a.bytes(text)
	return nil
}

func (c *call) rewritten(docs []Switched, text []byte) ([]byte, error) {
	d, err := parseDocument(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", c.path, err)
	}
	for _, sw := range docs {
		if sw.doc != nil {
			sw.doc(c, sw, d)
		}
	}
	if c.observe != nil {
		c.observe(c, d)
	}
	if len(docs) == 0 {
		return text, nil
	}
	return d.bytes(), nil
}
