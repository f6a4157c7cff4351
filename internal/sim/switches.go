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
	Name  string  // the number of a quirk, or the name of a fault
	Says  string  // a description of what the Switch changes
	Rows  string  // the ids of the rows in the catalogue of faults; "" for a quirk, which is no fault
	Share float64 // the fraction of responses or resources that the Switch affects by default
	Of    Scope   // whether Share is a fraction of the responses or of the resources

	inbound func(*call)                       // changes the request
	route   func(*call) *answer               // answers requests for paths that exist only with the Switch; returns nil for other paths
	doc     func(*call, Switched, *document)  // changes a document
	raw     func(c *call, text []byte) []byte // changes the encoded bytes of a document
	answer  func(*call, *answer)              // changes any response

	kinds  []string // the kinds of documents to which the fields cache and status apply
	cache  bool     // whether a simulated cache answers with a document of an earlier publication
	status int      // the HTTP status with which the Source answers requests for the documents
	hard   bool     // whether simulated caches also answer requests with Cache-Control: no-cache
	clock  shift    // how far the Source's clock is ahead
}

// Scope says whether a Switch affects everything, a fraction of the responses, or a fraction
// of the resources.
type Scope string

// The scopes.
const (
	Always  Scope = "always"  // every response and resource is affected
	Answers Scope = "answers" // a response is affected with the probability Share
	Entries Scope = "entries" // the fraction Share of the resources is affected, always the same ones
)

// Switched is a Switch that is turned on, with the fraction of responses or resources that
// it affects.
type Switched struct {
	*Switch
	Share float64 // a number above 0 and at most 1
}

// Switches returns all switches: first the quirks by number, then the faults.
func Switches() []*Switch { return slices.Concat(quirks, faults) }

func (sw Switched) hits(c *call) bool { return sw.Of != Answers || c.luck.Float64() < sw.Share }

// affects returns the same result for a URI in every call.
func (sw Switched) affects(uri string) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, sw.Name+" "+uri) // the error is ignored: writing to a hash never fails
	return unit(mix(h.Sum64())) <= sw.Share
}

func (sw Switched) each(d *document, change func(entry)) {
	for _, e := range d.entries {
		if sw.affects(e.loc()) {
			change(e)
		}
	}
}

// ParseQuirks parses comma-separated numbers of quirks.
func ParseQuirks(list string) ([]Switched, error) { return parse(list, "quirk", quirks) }

// ParseFaults parses comma-separated names of faults. After a name, "=" and a percentage may
// set the fraction of affected responses or resources: truncate,http-500=2%.
func ParseFaults(list string) ([]Switched, error) { return parse(list, "fault", faults) }

// ParseSwitches parses comma-separated numbers of quirks and names of faults in one
// list.
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
			return nil, fmt.Errorf("there is no %s %q (--list shows all)", what, name)
		}
		sw := Switched{all[i], all[i].Share}
		if sw.Of == Always {
			sw.Share = 1
		}
		if given {
			var err error
			if sw.Share, err = parseShare(share); err != nil || sw.Of == Always && sw.Share != 1 {
				return nil, fmt.Errorf("%s %q: found %q; expected a percentage such as 2%%, if --list shows one for this name", what, name, share)
			}
		}
		on = append(on, sw)
	}
	return on, nil
}

func parseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf("expected a percentage above 0, found %q", s)
	}
	return percent / 100, nil
}

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
