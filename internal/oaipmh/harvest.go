package oaipmh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"instep/fetch"
)

// Position says how far a list has been read. The zero value is the beginning. A
// Position is stored as JSON, and is valid for one Selection.
//
// A list is read in windows of datestamps. The first window is the whole list. If the
// resumption tokens in a window fail, a window of half the length is read instead.
type Position struct {
	From  Stamp         `json:"from,omitzero"`  // the first datestamp of the window; the zero value means that of the Selection
	First bool          `json:"first,omitzero"` // requests have no first datestamp, because this is the first window; From only serves to compute its end
	Width time.Duration `json:"width,omitzero"` // length of the window; with 0 the window extends to the end of the Selection
	Token string        `json:"token,omitzero"` // the resumption token for the next response in the window; "" for the first response

	Days  bool  `json:"days,omitzero"`  // datestamps in requests have a granularity of days
	End   Stamp `json:"end,omitzero"`   // time of the first response to a list request
	Pages int64 `json:"pages,omitzero"` // number of responses read so far
	Done  bool  `json:"done,omitzero"`  // the whole list has been read
}

// Step is one response to a list request, with the Position after it.
type Step struct {
	Page *Page // nil if the Position changed without a response
	Next Position
}

// Harvest yields the responses that make up the list of a Selection. It begins at a
// Position and ends when Position.Done is set. A record may be in several responses. id
// is the description of the repository. An error ends the harvest, which can continue
// later from the last Position. The error wraps fetch.Temporary if a later attempt may
// succeed.
func (c *Client) Harvest(ctx context.Context, s Selection, id Identity, at Position) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		h := harvester{c: c, ctx: ctx, s: s, id: id, at: at, yield: yield}
		h.at.Days = h.at.Days || id.Days
		for !h.at.Done {
			if err := h.window(); err != nil {
				if !errors.Is(err, errEnough) {
					yield(Step{}, err)
				}
				return
			}
		}
	}
}

// errEnough means that the consumer of the responses has stopped.
var errEnough = errors.New("enough")

type harvester struct {
	c     *Client
	ctx   context.Context
	s     Selection
	id    Identity
	at    Position
	yield func(Step, error) bool
}

// window reads the current window of datestamps, and then moves the Position to the
// next one. If the resumption tokens fail, it moves the Position to a smaller window.
func (h *harvester) window() error {
	for p, err := range h.c.pages(h.ctx, VerbRecords, h.selection().values(h.at.Days), h.at.Token) {
		if err != nil {
			return h.failed(err)
		}
		if h.at.End.IsZero() {
			h.at.End = Stamp{Time: p.Date}
		}
		h.at.Pages++
		if h.at.Token = p.Token; p.Token == "" {
			h.next()
		}
		if !h.yield(Step{p, h.at}, nil) {
			return errEnough
		}
	}
	return nil
}

// selection returns the selection of the current window.
func (h *harvester) selection() Selection {
	s := h.s
	if !h.at.From.IsZero() && !h.at.First {
		s.From = h.at.From
	}
	if until, ok := h.until(); ok {
		s.Until = Stamp{Time: until}
	}
	return s
}

// granule returns the granularity of datestamps in requests.
func (h *harvester) granule() time.Duration {
	if h.at.Days {
		return 24 * time.Hour
	}
	return time.Second
}

// until returns the last datestamp of the current window; false if the window extends
// to the end of the Selection.
func (h *harvester) until() (time.Time, bool) {
	if h.at.Width <= 0 {
		return time.Time{}, false
	}
	until := h.at.From.Time.Add(h.at.Width - h.granule())
	return until, until.Before(h.end())
}

// end returns the last datestamp of the Selection or, if it has none, the time at which
// the harvest began.
func (h *harvester) end() time.Time {
	switch {
	case !h.s.Until.IsZero():
		return h.s.Until.Time
	case !h.at.End.IsZero():
		return h.at.End.Time
	case !h.id.Date.IsZero():
		return h.id.Date
	}
	return h.c.Fetch.Now()
}

// next moves the Position to the next window.
func (h *harvester) next() {
	until, some := h.until()
	if !some {
		h.at.Done = true
		return
	}
	h.at.From, h.at.First = Stamp{Time: until.Add(h.granule())}, false
	h.at.Width *= 2
}

// failed handles the error of a request. If the list can be read in another way, it
// moves the Position to the window to read next, and returns nil. Otherwise it returns
// the error.
func (h *harvester) failed(err error) error {
	if !h.at.Days && errors.Is(err, BadArgument) && h.at.Token == "" && (!h.selection().From.IsZero() || !h.selection().Until.IsZero()) {
		h.at.Days = true // the repository states a granularity of seconds but does not accept seconds
		h.at.From.Time = h.at.From.Time.Truncate(h.granule())
		h.note("the repository refused a datestamp in seconds, although Identify states this granularity; requests now have days")
		return h.move()
	}
	if h.at.Token == "" || !tokenFails(err) {
		return err
	}
	return h.divide(err)
}

// tokenFails reports whether an error may be caused by a resumption token.
func tokenFails(err error) bool {
	if loop, ok := errors.AsType[*LoopError](err); ok && loop != nil {
		return true
	}
	fe, ok := errors.AsType[*fetch.Error](err)
	return errors.Is(err, BadResumptionToken) || errors.Is(err, BadArgument) ||
		ok && (fe.Kind == fetch.NotFound || fe.Kind == fetch.Protocol || fe.Kind == fetch.TooLarge || fe.Status == 500)
}

// divide moves the Position to a window of half the length.
func (h *harvester) divide(cause error) error {
	if h.at.From.IsZero() {
		h.at.From, h.at.First = h.start(), h.s.From.IsZero() // with First set, requests have no first datestamp, because earliestDatestamp is often wrong
	}
	begin, end := h.at.From.Time, h.end()
	width := h.at.Width
	if all := end.Sub(begin) + h.granule(); width <= 0 || width > all {
		width = all
	}
	h.at.Token = "" // if the window cannot be divided, the next run reads it again without a token
	if width = (width / 2).Truncate(h.granule()); width < h.granule() && h.at.First && begin.After(epoch) {
		h.at.From, h.at.Width = Stamp{Time: epoch}, 0 // there must be many records from before earliestDatestamp, so these are divided, too
		return h.divide(cause)
	}
	if width < h.granule() {
		if err := h.move(); err != nil {
			return err
		}
		return fmt.Errorf("the resumption tokens fail, and the records of %s are too many for one response: %w", h.at.From.In(h.at.Days), cause)
	}
	h.at.Width = width
	h.note(fmt.Sprintf("resumption tokens fail (%v), so the list is read by datestamps, from %s in steps of %v", cause, h.at.From.In(h.at.Days), width))
	return h.move()
}

// epoch is assumed to be earlier than all datestamps of records.
var epoch = time.Unix(0, 0).UTC()

// start returns the first datestamp of the list, as the beginning of its first window.
func (h *harvester) start() Stamp {
	s := h.s.From
	if s.IsZero() {
		s = h.id.Earliest
	}
	if s.IsZero() || s.Time.Year() < 1970 {
		s = Stamp{Time: epoch}
	}
	return Stamp{Time: s.Time.Truncate(h.granule())}
}

// move yields the Position after it was changed without a response.
func (h *harvester) move() error {
	if !h.yield(Step{Next: h.at}, nil) {
		return errEnough
	}
	return nil
}

func (h *harvester) note(what string) {
	if h.c.Observe != nil {
		h.c.Observe(Note{URL: h.c.BaseURL, What: what, N: 1})
	}
}
