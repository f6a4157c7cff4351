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

// Switch is one way in which a Source misbehaves.
type Switch struct {
	Name  string  // a quirk has a number, a fault a name
	Says  string  // the effect of the switch
	Rows  string  // row of the catalogue of faults; "" for quirks
	Share float64 // default share of its targets
	Of    Scope   // the whole that the share is a part of

	inbound func(*call)                       // changes the request
	route   func(*call) *answer               // answers a path that does not exist otherwise; nil: passes on
	doc     func(*call, Switched, *document)  // changes a document
	raw     func(c *call, text []byte) []byte // changes the bytes of a document
	answer  func(*call, *answer)              // changes any answer

	kinds  []string // kinds of the documents that the next two fields apply to
	cache  bool     // a cache answers with an earlier generation
	status int      // the Source answers with this status
	hard   bool     // caches answer requests with Cache-Control: no-cache too
	clock  shift    // how far the Source's clock is ahead
}

// Scope tells what the share of a Switch is a fraction of: the answers, or the resources.
type Scope string

// The scopes.
const (
	Always  Scope = "always"  // there is no share
	Answers Scope = "answers" // each answer has the same chance
	Entries Scope = "entries" // a resource either has it or not
)

// Switched is a Switch that is on, for a share of its targets.
type Switched struct {
	*Switch
	Share float64 // above 0, at most 1
}

// Switches are all that there are: quirks by number, then faults.
func Switches() []*Switch { return slices.Concat(quirks, faults) }

// hits decides whether an answer is hit.
func (sw Switched) hits(c *call) bool { return sw.Of != Answers || c.luck.Float64() < sw.Share }

// has reports whether the resource of a URI is affected: always the same resources are.
func (sw Switched) has(uri string) bool {
	h := fnv.New64a()
	_, _ = io.WriteString(h, sw.Name+" "+uri) // a hash takes everything
	return unit(mix(h.Sum64())) <= sw.Share
}

// each calls change for the entries that are hit.
func (sw Switched) each(d *document, change func(entry)) {
	for _, e := range d.entries {
		if sw.has(e.loc()) {
			change(e)
		}
	}
}

// ParseQuirks reads the numbers of quirks, separated by commas.
func ParseQuirks(list string) ([]Switched, error) { return parse(list, "quirk", quirks) }

// ParseFaults reads the names of faults, separated by commas, each alone or with its
// share: truncate,http-500=2%.
func ParseFaults(list string) ([]Switched, error) { return parse(list, "fault", faults) }

// ParseSwitches reads numbers of quirks and names of faults together.
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
				return nil, fmt.Errorf("%s %q: expected a share such as 2%% where --list gives one, found %q", what, name, share)
			}
		}
		on = append(on, sw)
	}
	return on, nil
}

// parseShare reads a percentage above 0.
func parseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf("%q is no percentage above 0", s)
	}
	return percent / 100, nil
}

// rewrite leads a document through the switches that change documents.
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
