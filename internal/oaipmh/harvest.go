package oaipmh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"instep/fetch"
)

// Position says how far a list was read. The zero value is the beginning of the list. A
// Position is stored as JSON, and is valid for one Selection.
//
// A list is read in windows: ranges of datestamps, each read by one list request and its
// resumption tokens. The first window is the whole list. If the tokens in a window fail, a
// window of half the length is read instead.
type Position struct {
	From  Stamp         `json:"from,omitzero"`  // first datestamp of the time window; zero means the From of the Selection
	First bool          `json:"first,omitzero"` // whether this is the first time window: its requests have no "from", and From only serves to compute its end
	Width time.Duration `json:"width,omitzero"` // length of the time window; 0 means that it ends with the Selection
	Token string        `json:"token,omitzero"` // resumption token of the next request in the time window; "" for the first request

	Days  bool  `json:"days,omitzero"`  // whether datestamps in requests are days and not seconds
	End   Stamp `json:"end,omitzero"`   // responseDate of the first response of the harvest
	Pages int64 `json:"pages,omitzero"` // number of responses that were read
	Done  bool  `json:"done,omitzero"`  // whether the whole list was read
}

// Step is a step of a harvest: usually a response, with the Position after the response.
type Step struct {
	Page *Page // response with records; nil if only the Position changed
	Next Position
}

// Harvest yields the responses of a list, from a Position to the end. The same record may
// be in several responses. The parameter id is the repository's answer to Identify. An
// error ends the harvest. It wraps fetch.Temporary if a later attempt may succeed. A new
// call of Harvest can continue from the last Position.
func (c *Client) Harvest(ctx context.Context, s Selection, id Identity, at Position) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		h := harvester{c: c, ctx: ctx, s: s, id: id, at: at, yield: yield}
		h.at.Days = h.at.Days || id.Days
		for !h.at.Done {
			if err := h.readWindow(); err != nil {
				if !errors.Is(err, errStopped) {
					yield(Step{}, err)
				}
				return
			}
		}
	}
}

var errStopped = errors.New("enough")

type harvester struct {
	c     *Client
	ctx   context.Context
	s     Selection
	id    Identity
	at    Position
	yield func(Step, error) bool
}

// readWindow reads the records of the current time window, and then sets the Position to
// the next window. If the resumption tokens fail, it sets the Position to a shorter window.
func (h *harvester) readWindow() error {
	for p, err := range h.c.pages(h.ctx, VerbRecords, h.selection().values(h.at.Days), h.at.Token) {
		if err != nil {
			return h.recoverFrom(err)
		}
		if h.at.End.IsZero() {
			h.at.End = Stamp{Time: p.Date}
		}
		h.at.Pages++
		if h.at.Token = p.Token; p.Token == "" {
			h.nextWindow()
		}
		if !h.yield(Step{p, h.at}, nil) {
			return errStopped
		}
	}
	return nil
}

func (h *harvester) selection() Selection {
	s := h.s
	if !h.at.From.IsZero() && !h.at.First {
		s.From = h.at.From
	}
	if until, ok := h.windowEnd(); ok {
		s.Until = Stamp{Time: until}
	}
	return s
}

func (h *harvester) granularity() time.Duration {
	if h.at.Days {
		return 24 * time.Hour
	}
	return time.Second
}

// windowEnd returns the last datestamp of the current time window. It returns false if
// this window extends to the end of the list.
func (h *harvester) windowEnd() (time.Time, bool) {
	if h.at.Width <= 0 {
		return time.Time{}, false
	}
	until := h.at.From.Time.Add(h.at.Width - h.granularity())
	return until, until.Before(h.listEnd())
}

// listEnd returns the last datestamp of the Selection or, if there is none, the time of
// the first response of the harvest.
func (h *harvester) listEnd() time.Time {
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

func (h *harvester) nextWindow() {
	until, some := h.windowEnd()
	if !some {
		h.at.Done = true
		return
	}
	h.at.From, h.at.First = Stamp{Time: until.Add(h.granularity())}, false
	h.at.Width *= 2
}

// recoverFrom changes the Position after the error of a request, so that the list can
// be read in another way. If there is no other way, it returns the error.
func (h *harvester) recoverFrom(err error) error {
	if !h.at.Days && errors.Is(err, BadArgument) && h.at.Token == "" && (!h.selection().From.IsZero() || !h.selection().Until.IsZero()) {
		h.at.Days = true // try days: the repository refuses seconds, although Identify states seconds
		h.at.From.Time = h.at.From.Time.Truncate(h.granularity())
		h.note("the repository refused a datestamp in seconds, although Identify states this granularity; requests now use days")
		return h.yieldPosition()
	}
	if h.at.Token == "" || !tokenFails(err) {
		return err
	}
	return h.halveWindow(err)
}

func tokenFails(err error) bool {
	if loop, ok := errors.AsType[*LoopError](err); ok && loop != nil {
		return true
	}
	fe, ok := errors.AsType[*fetch.Error](err)
	return errors.Is(err, BadResumptionToken) || errors.Is(err, BadArgument) ||
		ok && (fe.Kind == fetch.NotFound || fe.Kind == fetch.Protocol || fe.Kind == fetch.TooLarge || fe.Status == 500)
}

// halveWindow halves the current time window. If the window cannot become smaller, it
// returns an error that wraps cause.
func (h *harvester) halveWindow(cause error) error {
	if h.at.From.IsZero() {
		h.at.From, h.at.First = h.listStart(), h.s.From.IsZero() // requests have no "from", because earliestDatestamp is often wrong
	}
	begin, end := h.at.From.Time, h.listEnd()
	width := h.at.Width
	if all := end.Sub(begin) + h.granularity(); width <= 0 || width > all {
		width = all
	}
	h.at.Token = "" // so that a later harvest reads this window from its beginning if it cannot be halved now
	if width = (width / 2).Truncate(h.granularity()); width < h.granularity() && h.at.First && begin.After(epoch) {
		h.at.From, h.at.Width = Stamp{Time: epoch}, 0 // begin earlier: apparently many records are older than earliestDatestamp
		return h.halveWindow(cause)
	}
	if width < h.granularity() {
		if err := h.yieldPosition(); err != nil {
			return err
		}
		return fmt.Errorf("the resumption tokens fail, and the records of %s are too many for one response: %w", h.at.From.In(h.at.Days), cause)
	}
	h.at.Width = width
	h.note(fmt.Sprintf("resumption tokens fail (%v), so the list is read by datestamps, from %s in steps of %v", cause, h.at.From.In(h.at.Days), width))
	return h.yieldPosition()
}

// epoch is earlier than the datestamp of any record.
var epoch = time.Unix(0, 0).UTC()

// listStart returns the first datestamp of the Selection or, if there is none, the
// earliestDatestamp of the repository.
func (h *harvester) listStart() Stamp {
	s := h.s.From
	if s.IsZero() {
		s = h.id.Earliest
	}
	if s.IsZero() || s.Time.Year() < 1970 {
		s = Stamp{Time: epoch}
	}
	return Stamp{Time: s.Time.Truncate(h.granularity())}
}

// yieldPosition yields a Step without a response.
func (h *harvester) yieldPosition() error {
	if !h.yield(Step{Next: h.at}, nil) {
		return errStopped
	}
	return nil
}

func (h *harvester) note(what string) {
	if h.c.Observe != nil {
		h.c.Observe(Note{URL: h.c.BaseURL, What: what, N: 1})
	}
}
