package repository

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"instep/fetch"
	"instep/internal/oaipmh"
)

// Defaults of the fields of a Harvest.
const (
	DefaultOverlap   = 24 * time.Hour
	DefaultFullEvery = 30 * 24 * time.Hour
)

// Harvest brings a Store up to date with a repository. Client, Store, Prefix and Now are
// required.
type Harvest struct {
	Client *oaipmh.Client
	Store  *Store
	Prefix string // metadataPrefix
	Set    string // setSpec of the set to harvest; "" means all records

	// Overlap is how long before the last datestamp the next harvest begins, because
	// servers may list a record some time after its datestamp. 0 means DefaultOverlap.
	Overlap time.Duration
	// FullEvery is the interval at which a harvest lists all records, to find deletions
	// that the repository does not list. 0 means DefaultFullEvery; if the repository
	// lists all deletions (deletedRecord is persistent), 0 means never.
	FullEvery time.Duration
	Now       func() time.Time
}

// Summary is the result of a harvest.
type Summary struct {
	Full             bool
	Resumed          bool // whether the harvest continued an interrupted one
	Records, Deleted int64
	Answers          int64
	Short            int64              // number of records that the list lacks, compared with the number that the repository states
	Kept             int64              // number of records that a complete list lacks, but that were kept: they exist, or their state is unknown
	Bad              []oaipmh.BadRecord // the first 100 unusable records without an identifier
}

const maxBad = 100

// Run harvests the records that changed since the last run, or continues an interrupted
// harvest. If Run returns an error, the records of earlier responses stay stored, so the next
// run continues after them.
func (h *Harvest) Run(ctx context.Context) (sum Summary, err error) {
	if err := h.Client.Fetch.TrustSource(ctx, h.Client.BaseURL); err != nil {
		return sum, err
	}
	id, err := h.Client.Identify(ctx)
	if err != nil {
		return sum, err
	}
	p, err := h.Store.progress(ctx)
	if err != nil {
		return sum, err
	}
	sum.Resumed = p.Running
	if !p.Running {
		if p.Format, err = h.format(ctx); err != nil {
			return sum, err
		}
		h.begin(&p, &id)
		if err := h.Store.storePage(ctx, nil, &p); err != nil {
			return sum, err
		}
	}
	sum.Full = p.Full
	s := oaipmh.Selection{Prefix: h.Prefix, Set: h.Set, From: p.From}
	for step, err := range h.Client.Harvest(ctx, s, id, p.Position) {
		if err != nil {
			return sum, err
		}
		p.Position = step.Next
		if step.Page != nil {
			sum.add(step.Page)
			p.addPage(step.Page)
		}
		if err := h.Store.storePage(ctx, step.Page, &p); err != nil {
			return sum, err
		}
	}
	if sum.Short, err = h.countMissing(ctx, &p); err != nil {
		return sum, err
	}
	sweep := p.Full && !p.Lost && sum.Short == 0
	if sweep {
		if sum.Kept, err = h.verify(ctx, &p); err != nil {
			return sum, err
		}
	}
	return sum, h.finish(ctx, p, sweep)
}

// maxVerified is the largest number of missing records that one harvest requests.
const maxVerified = 5000

// verify requests the records that a complete list lacks, because a list may skip records if
// others are deleted while it is read. It returns the number of records that it kept,
// because they exist or because their state is unknown.
func (h *Harvest) verify(ctx context.Context, p *progress) (kept int64, err error) {
	asked := 0
	for some, err := range h.Store.recordsWhere(ctx, fmt.Sprintf("NOT deleted AND round < %d", p.Round), batch) {
		if err != nil {
			return kept, err
		}
		for _, k := range some {
			gone, page := false, &oaipmh.Page{}
			if asked++; asked <= maxVerified {
				if gone, page, err = h.isGone(ctx, k.identifier); err != nil {
					return kept, err
				}
			}
			if gone {
				continue
			}
			kept++
			if err := h.Store.keepRecord(ctx, k.id, page, p); err != nil {
				return kept, err
			}
		}
	}
	return kept, nil
}

// isGone requests a record, and reports whether it is deleted or no longer in the
// harvested set. The returned page contains the record if the record exists.
func (h *Harvest) isGone(ctx context.Context, identifier string) (bool, *oaipmh.Page, error) {
	page := &oaipmh.Page{}
	r, err := h.Client.Record(ctx, identifier, h.Prefix)
	switch {
	case errors.Is(err, oaipmh.IDDoesNotExist), errors.Is(err, oaipmh.CannotDisseminateFormat), errors.Is(err, fetch.NotFound):
		return true, page, nil
	case errors.Is(err, fetch.Temporary) || ctx.Err() != nil:
		return false, page, err
	case err != nil:
		return false, page, nil // it is unknown whether the record exists, so it is kept
	case r.Deleted, h.Set != "" && !slices.ContainsFunc(r.Sets, func(s string) bool { return s == h.Set || strings.HasPrefix(s, h.Set+":") }):
		return true, page, nil
	}
	page.Records = []oaipmh.Record{r}
	return false, page, nil
}

// countMissing returns the number of records that the list lacks, compared with the number
// that the repository states. If any record is missing, nothing may be deleted.
func (h *Harvest) countMissing(ctx context.Context, p *progress) (int64, error) {
	if p.Position.Width > 0 {
		return 0, nil // the repository stated no total, because the list was read in parts
	}
	var came int64
	err := h.Store.db.QueryRowContext(ctx, "SELECT count(*) FROM record WHERE round = ?", p.Round).Scan(&came)
	return max(0, p.Size-came), err
}

// format returns the metadata format that is harvested. If the repository does not list
// this format, which happens, only the prefix is known.
func (h *Harvest) format(ctx context.Context) (oaipmh.Format, error) {
	formats, err := h.Client.Formats(ctx)
	if _, refused := errors.AsType[*oaipmh.Error](err); err != nil && !refused && !errors.Is(err, oaipmh.ErrAnswer) {
		return oaipmh.Format{}, err
	}
	for _, f := range formats {
		if f.Prefix == h.Prefix {
			return f, nil
		}
	}
	return oaipmh.Format{Prefix: h.Prefix}, nil
}

func (h *Harvest) begin(p *progress, id *oaipmh.Identity) {
	every := h.FullEvery
	if every == 0 && id.Deleted != oaipmh.DeletedPersistent {
		every = DefaultFullEvery
	}
	p.Round++
	p.Full = p.LastFull.IsZero() || p.Highest.IsZero() || every > 0 && !h.Now().Before(p.LastFull.Add(every))
	p.Running, p.Lost, p.Size, p.Position, p.From = true, false, 0, oaipmh.Position{}, oaipmh.Stamp{}
	p.Deleted, p.Began = string(id.Deleted), h.Now()
	if p.Full {
		return
	}
	overlap := h.Overlap
	if overlap == 0 {
		overlap = DefaultOverlap
	}
	p.From = oaipmh.Stamp{Time: p.Highest.Time.Add(-overlap)}
	if e := id.Earliest; !e.IsZero() && p.From.Time.Before(e.Time) && !e.Time.After(p.Highest.Time) { // an earliestDatestamp later than a known datestamp is wrong, and ignored
		p.From = oaipmh.Stamp{Time: id.Earliest.Time} // not earlier, because some servers refuse a "from" before earliestDatestamp
	}
}

// addPage raises the highest datestamp. A datestamp later than the response counts as the
// time of the response: otherwise one wrong datestamp would let the next harvest begin
// too late.
func (p *progress) addPage(page *oaipmh.Page) {
	for i := range page.Records {
		stamp := page.Records[i].Datestamp
		if !page.Date.IsZero() && stamp.Time.After(page.Date) {
			stamp.Time = page.Date
		}
		if stamp.Time.After(p.Highest.Time) {
			p.Highest = stamp
		}
	}
	p.Size = max(p.Size, page.Size)
	for i := range page.Bad {
		p.Lost = p.Lost || page.Bad[i].Identifier == ""
	}
}

func (s *Summary) add(page *oaipmh.Page) {
	s.Answers++
	for i := range page.Records {
		s.Records++
		if page.Records[i].Deleted {
			s.Deleted++
		}
	}
	for _, b := range page.Bad {
		if b.Identifier == "" && len(s.Bad) < maxBad {
			s.Bad = append(s.Bad, b)
		}
	}
}

// finish makes the next harvest begin at the time of the first response of this harvest,
// because records may have changed while they were listed.
func (h *Harvest) finish(ctx context.Context, p progress, sweep bool) error {
	p.Running = false
	start := p.Position.End.Time
	if start.IsZero() {
		start = p.Began
	}
	if p.Highest.Time.After(start) {
		p.Highest = oaipmh.Stamp{Time: start}
	}
	if p.Full {
		p.LastFull = h.Now()
	}
	return h.Store.transact(ctx, func(tx *sql.Tx) error {
		if sweep {
			if err := h.Store.markDeleted(ctx, tx, p.Round); err != nil {
				return err
			}
		}
		return setProgress(ctx, tx, &p)
	})
}

// String describes the harvest in a sentence.
func (s Summary) String() string {
	kind := "the records that changed"
	if s.Full {
		kind = "all records"
	}
	resumed := ""
	if s.Resumed {
		resumed = ", continuing the interrupted harvest"
	}
	short := ""
	if s.Short > 0 {
		short = fmt.Sprintf("; the repository states %d more records, so missing records are not deleted", s.Short)
	}
	if s.Kept > 0 {
		short += "; kept although missing from the list: " + english.Plural(int(s.Kept), "record", "")
	}
	return fmt.Sprintf("harvested %s: %s in %s, %d of them deleted%s%s", kind, english.Plural(int(s.Records), "record", ""), english.Plural(int(s.Answers), "answer", ""), s.Deleted, resumed, short)
}
