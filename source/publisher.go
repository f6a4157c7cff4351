package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"instep/blob"
)

// Publisher publishes sets of resources into a bucket. Bucket, Staging, Journal,
// BaseURL, UUID and Now are required. A Publisher is not safe for concurrent use. Only
// one Publisher may use a Journal and a Staging at a time, so callers in several
// processes need a lock.
type Publisher struct {
	Bucket  blob.Bucket // the bucket in which readers find the documents
	Staging blob.Bucket // a bucket only for this Publisher, in which documents are stored before the commit
	Journal Journal
	BaseURL string // the base URL in the form that ParseBaseURL returns
	UUID    string // the UUID of the state directory; Publish fails if Bucket contains a publication from another state directory
	// Sets are the names of all sets that the Source Description may list. The Source
	// Description lists those of them that are published, and the set of the Update.
	Sets      []string
	About     About  // the texts about the whole Source, for its HTML page
	Generator string // the program's name on the HTML pages; may be empty
	// MaxEntries is the largest number of entries in a document of a Resource List or
	// plain sitemap, and in a package. 0 means 50,000, the limit of the standard. A
	// document never has more than 50,000,000 bytes.
	MaxEntries int
	Aliases    Aliases       // the additional keys of a publication that another program wrote first
	Keep       time.Duration // the minimum time for which documents are kept after the last link to them was removed; 0 means 24 h
	// KeepGenerations is the number of Resource Lists whose files are kept, including
	// the current one; 0 means 2, which is the minimum.
	KeepGenerations int
	Now             func() time.Time

	fixedMax int64 // the largest number of changes in the Change List at a fixed name; 0 means the limit of the standard
}

const (
	defaultKeep        = 24 * time.Hour
	defaultGenerations = 2
)

// Publish encodes the documents of the Update u, commits them as one publication and
// writes them to the Bucket. Before the commit readers see no change. If writing fails
// after the commit, Publish returns an error and a Publication with an ID, and the next
// Recover finishes that publication. Errors: *NotOursError, *WrongStateError,
// ErrChangesFull, ErrIndexFull, *GoneError.
func (p *Publisher) Publish(ctx context.Context, u Update) (Publication, error) {
	if err := p.check(u); err != nil {
		return Publication{}, err
	}
	if _, err := p.Recover(ctx, u.Set); err != nil {
		return Publication{}, err
	}
	if err := p.CheckState(ctx); err != nil {
		return Publication{}, err
	}
	id, err := p.Journal.Begin(ctx, u.Set)
	if err != nil {
		return Publication{}, fmt.Errorf("beginning a publication: %w", err)
	}
	last, _, err := p.Journal.Last(ctx, u.Set)
	if err != nil {
		return Publication{}, fmt.Errorf("reading the last publication: %w", err)
	}
	pub, err := p.stage(ctx, last, id, u)
	if err != nil {
		// The error of cleanStaging is ignored, because the next run cleans the staging
		// area again.
		_ = p.cleanStaging(context.WithoutCancel(ctx), p.layout(u.Set), last.ID)
		return Publication{}, err
	}
	// A Commit that returns an error may still have taken effect, so the staged documents
	// stay until Recover has checked that.
	if err := p.Journal.Commit(ctx, pub); err != nil {
		return Publication{}, fmt.Errorf("committing the publication: %w", err)
	}
	pub, err = p.finish(ctx, pub)
	if err != nil {
		return pub, err
	}
	return pub, p.Sweep(ctx, u.Set)
}

// Preview encodes the documents of the Update u without storing them, and returns the
// publication that Publish would make. Its field Written has the keys at which Publish
// would write new bytes.
func (p *Publisher) Preview(ctx context.Context, u Update) (Publication, error) {
	if err := p.check(u); err != nil {
		return Publication{}, err
	}
	if err := p.CheckState(ctx); err != nil {
		return Publication{}, err
	}
	last, done, err := p.Journal.Last(ctx, u.Set)
	if err != nil {
		return Publication{}, fmt.Errorf("reading the last publication: %w", err)
	}
	pub, err := p.make(ctx, &stage{}, last, last.ID+1, u)
	if err != nil {
		return Publication{}, err
	}
	for _, d := range pub.Documents {
		same, err := p.compareStored(ctx, d)
		var foreign *NotOursError
		if errors.As(err, &foreign) && !done {
			err = p.checkPending(ctx, last, foreign) // no error if the unfinished publication wrote this file
		}
		if err != nil {
			return Publication{}, err
		}
		if !same {
			pub.Written = append(pub.Written, d.Key)
		}
	}
	return pub, nil
}

// checkPending checks a file that differs from what this program last wrote. It returns no
// error if the file is a document of the unfinished publication pub.
func (p *Publisher) checkPending(ctx context.Context, pub Publication, foreign *NotOursError) error {
	for _, d := range pub.Documents {
		if d.Key == foreign.Key {
			_, err := p.compareStored(ctx, d)
			return err
		}
	}
	return foreign
}

// Recover completes the publication of a set that was committed but not completely
// written, and returns it. If there is none, it removes staged documents that were never
// committed, and returns a zero Publication. Publish begins with Recover.
func (p *Publisher) Recover(ctx context.Context, set string) (Publication, error) {
	last, done, err := p.Journal.Last(ctx, set)
	if err != nil {
		return Publication{}, fmt.Errorf("reading the last publication: %w", err)
	}
	if last.ID == 0 || done {
		return Publication{}, p.cleanStaging(ctx, p.layout(set), last.ID)
	}
	if err := p.CheckState(ctx); err != nil {
		return Publication{}, err
	}
	return p.finish(ctx, last)
}

func (p *Publisher) check(u Update) error {
	switch {
	case p.Bucket == nil || p.Staging == nil || p.Journal == nil || p.Now == nil:
		return errors.New("publishing: Bucket, Staging, Journal and Now are required")
	case !strings.HasSuffix(p.BaseURL, "/"):
		return fmt.Errorf("publishing: BaseURL %q does not end in a slash, see ParseBaseURL", p.BaseURL)
	case u.Snapshot == nil && u.Dump == nil && len(u.Changes) == 0:
		return errors.New("publishing: neither a snapshot nor changes given")
	case u.Snapshot != nil && (u.Snapshot.At.IsZero() || u.Snapshot.Resources == nil):
		return errors.New("publishing: a snapshot needs At and Resources")
	case u.Dump != nil && (u.Dump.At.IsZero() || u.Dump.Bitstreams == nil):
		return errors.New("publishing: a dump needs At and Bitstreams")
	}
	for i := range u.Changes {
		w := &u.Changes[i]
		switch {
		case w.From.IsZero() || w.Changes == nil:
			return errors.New("publishing: a Change List needs From and Changes")
		case w.Number <= 0 || i > 0 && w.Number <= u.Changes[i-1].Number:
			return fmt.Errorf("publishing: Change List %d: expected a positive number, greater than that of the list before", w.Number)
		case i > 0 && !w.From.Equal(u.Changes[i-1].Until):
			return fmt.Errorf("publishing: Change List %d: expected it to begin where the previous one ends", w.Number)
		}
	}
	return CheckSet(u.Set)
}

// stage writes the documents of the Update u durably to the staging area. It returns a
// *NotOursError if another program has written a file at the key of one of the
// documents.
func (p *Publisher) stage(ctx context.Context, last Publication, id int64, u Update) (Publication, error) {
	batch, err := p.Staging.Begin(ctx)
	if err != nil {
		return Publication{}, fmt.Errorf("staging: %w", err)
	}
	defer batch.Discard()
	pub, err := p.make(ctx, &stage{batch: batch, prefix: p.staged(u.Set, id)}, last, id, u)
	if err != nil {
		return Publication{}, err
	}
	for _, d := range pub.Documents {
		if _, err := p.compareStored(ctx, d); err != nil {
			return Publication{}, err
		}
	}
	if err := batch.Commit(ctx); err != nil {
		return Publication{}, fmt.Errorf("staging: %w", err)
	}
	return pub, nil
}

func (p *Publisher) layout(set string) layout {
	return layout{base: p.BaseURL, set: set, aliases: p.Aliases}
}

func (p *Publisher) staged(set string, id int64) string {
	return fmt.Sprintf("%s%d/", p.layout(set).stagePrefix(), id)
}

func (p *Publisher) generations() int {
	return max(p.KeepGenerations, defaultGenerations)
}

func (p *Publisher) keep() time.Duration { return cmp.Or(p.Keep, defaultKeep) }
