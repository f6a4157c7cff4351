package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"instep/blob"
)

// Publisher publishes sets of resources into a bucket. Bucket, Staging, Journal,
// BaseURL, UUID and Now are required. It is not safe for concurrent use, and one
// Journal and Staging must not be used by two of them: callers hold a lock.
type Publisher struct {
	Bucket  blob.Bucket // bucket in which readers find the documents
	Staging blob.Bucket // documents wait here until they are committed; for this Publisher only
	Journal Journal
	BaseURL string // URL as ParseBaseURL returns it
	UUID    string // names the state: a bucket that carries another one is refused
	// Sets are the names of all sets published here, for the Source Description;
	// those without publication yet, and the set being published, may be left out.
	Sets      []string
	About     About  // texts about the Source as a whole, for the page for people
	Generator string // the program, named on the pages for people; may be empty
	// MaxEntries bounds a Resource List, plain sitemap or package; 0 is the 50,000 of the
	// standard, which is the upper bound. A document never exceeds 50,000,000 bytes.
	MaxEntries int
	Aliases    Aliases       // aliases of an adopted publication
	Keep       time.Duration // documents no longer linked stay at least this long; 0 is 24 h
	// KeepGenerations is how many Resource Lists stay readable, with the current
	// one; 0 is 2, the lower bound.
	KeepGenerations int
	Now             func() time.Time

	fixedMax int64 // changes in the Change List at a fixed name; 0 is the bound of the standard
}

const (
	defaultKeep        = 24 * time.Hour
	defaultGenerations = 2
)

// Publish makes the documents of u, commits them as one publication and writes
// them out. Before the commit it changes nothing; once committed, a publication
// that could not be written out whole (an error and a Publication with an ID) is
// finished by the next Recover. Errors: *NotOursError, *WrongStateError,
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
		// Staging is tidied by the next run too, so a failure to do it here is no news.
		_ = p.wipe(context.WithoutCancel(ctx), p.layout(u.Set), last.ID)
		return Publication{}, err
	}
	// A failed Commit may have taken effect: the staged documents stay, and Recover finds
	// out.
	if err := p.Journal.Commit(ctx, pub); err != nil {
		return Publication{}, fmt.Errorf("committing the publication: %w", err)
	}
	pub, err = p.finish(ctx, pub)
	if err != nil {
		return pub, err
	}
	return pub, p.Sweep(ctx, u.Set)
}

// Preview makes the documents of u without keeping them, and returns the publication that
// Publish would have made. Written has the keys whose bytes would be new.
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
		same, err := p.standing(ctx, d)
		var foreign *NotOursError
		if errors.As(err, &foreign) && !done {
			err = p.pending(ctx, last, foreign) // a publication that Recover will finish may have brought it
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

// pending returns foreign, unless foreign is about a document of pub: then it returns the
// error of standing for that document, if there is one.
func (p *Publisher) pending(ctx context.Context, pub Publication, foreign *NotOursError) error {
	for _, d := range pub.Documents {
		if d.Key == foreign.Key {
			_, err := p.standing(ctx, d)
			return err
		}
	}
	return foreign
}

// Recover completes a publication of a set that was committed but not written, and removes
// staged documents without a commit. It returns the publication that it completed, or a
// zero one. It is the first step of every run.
func (p *Publisher) Recover(ctx context.Context, set string) (Publication, error) {
	last, done, err := p.Journal.Last(ctx, set)
	if err != nil {
		return Publication{}, fmt.Errorf("reading the last publication: %w", err)
	}
	if last.ID == 0 || done {
		return Publication{}, p.wipe(ctx, p.layout(set), last.ID)
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
			return fmt.Errorf("publishing: Change List %d: expected it to begin where the one before ends", w.Number)
		}
	}
	return CheckSet(u.Set)
}

// stage makes the documents of u durable in the staging bucket, if they replace
// nothing foreign.
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
		if _, err := p.standing(ctx, d); err != nil {
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

func (p *Publisher) keep() time.Duration {
	if p.Keep == 0 {
		return defaultKeep
	}
	return p.Keep
}
