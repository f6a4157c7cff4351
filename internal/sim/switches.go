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
	Rows  string  // the identifiers of the rows in the catalogue of faults; "" for a quirk, which is not a fault
	Share float64 // the fraction of responses or resources that the Switch affects by default
	Of    Scope   // whether a share of the responses or of the resources is affected, or everything

	inbound func(*call)                       // a function that changes the request
	route   func(*call) *answer               // a function that answers requests for paths that exist only with the switch; it returns nil for any other request
	doc     func(*call, Switched, *document)  // a function that changes a document
	raw     func(c *call, text []byte) []byte // a function that changes the encoded bytes of a document
	answer  func(*call, *answer)              // a function that changes any response

	kinds  []string // the kinds of documents to which the fields cache and status apply
	cache  bool     // a simulated cache answers with a document of an earlier publication
	status int      // the HTTP status with which the Source answers requests for the documents
	hard   bool     // simulated caches also answer requests with Cache-Control: no-cache
	clock  shift    // the time by which the Source's clock is ahead
}

// Scope says whether a Switch affects a share of the responses, a share of the
// resources, or everything.
type Scope string

// The scopes.
const (
	Always  Scope = "always"  // every response and resource is affected
	Answers Scope = "answers" // each response is affected with the same probability
	Entries Scope = "entries" // some resources are always affected, and the others never
)

// Switched is a Switch that is turned on, with the share of responses or resources that
// it affects.
type Switched struct {
	*Switch
	Share float64 // a number above 0 and at most 1
}

// Switches returns all switches: first the quirks by number, then the faults.
func Switches() []*Switch { return slices.Concat(quirks, faults) }

func (sw Switched) hits(c *call) bool { return sw.Of != Answers || c.luck.Float64() < sw.Share }

// has always returns the same result for a URI.
func (sw Switched) has(uri string) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, sw.Name+" "+uri) // the error is ignored: writing to a hash never fails
	return unit(mix(h.Sum64())) <= sw.Share
}

func (sw Switched) each(d *document, change func(entry)) {
	for _, e := range d.entries {
		if sw.has(e.loc()) {
			change(e)
		}
	}
}

// ParseQuirks parses comma-separated numbers of quirks.
func ParseQuirks(list string) ([]Switched, error) { return parse(list, "quirk", quirks) }

// ParseFaults parses comma-separated names of faults. A name may be followed by "=" and
// the share of responses or resources that are affected: truncate,http-500=2%.
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

// parseShare parses a percentage, which must be above 0.
func parseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf("expected a percentage above 0, found %q", s)
	}
	return percent / 100, nil
}

// rewrite lets the switches change the document in a response.
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
