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

// Publisher publishes sets of resources into a bucket. Bucket, Staging, Journal, BaseURL,
// UUID and Now are required. It is not safe for concurrent use. Two Publishers must not use
// the same Journal and Staging, so callers need a lock.
type Publisher struct {
	Bucket  blob.Bucket // bucket in which readers find the documents
	Staging blob.Bucket // documents are staged here before the commit; used only by this Publisher
	Journal Journal
	BaseURL string // URL as ParseBaseURL returns it
	UUID    string // UUID of the state; Publish fails if the bucket holds the publication of another state
	// Sets are the names of all sets that the Source Description may list. It lists those
	// that are published. The set of an Update need not be in Sets.
	Sets      []string
	About     About  // texts about the whole Source, for its HTML page
	Generator string // the program's name on the HTML pages; may be empty
	// MaxEntries is the largest number of entries in a document of a Resource List or plain
	// sitemap, and in a package. 0 is 50,000, the limit of the standard. A document never
	// exceeds 50,000,000 bytes.
	MaxEntries int
	Aliases    Aliases       // aliases of an adopted publication
	Keep       time.Duration // minimum time that unlinked documents are kept; 0 is 24 h
	// KeepGenerations is the number of Resource Lists that stay readable, including the
	// current one; 0 is 2, which is the minimum.
	KeepGenerations int
	Now             func() time.Time

	fixedMax int64 // limit of changes in the Change List at a fixed name; 0 is the limit of the standard
}

const (
	defaultKeep        = 24 * time.Hour
	defaultGenerations = 2
)

// Publish encodes the documents of u, commits them as one publication and writes them
// out. Before the commit it changes nothing. If writing fails after the commit it
// returns an error and a Publication with an ID; the next Recover finishes that
// publication. Errors: *NotOursError, *WrongStateError, ErrChangesFull, ErrIndexFull,
// *GoneError.
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
		// The error is ignored, because the next run cleans the staging area, too.
		_ = p.wipe(context.WithoutCancel(ctx), p.layout(u.Set), last.ID)
		return Publication{}, err
	}
	// A failed Commit may have taken effect, so the staged documents stay until Recover has
	// checked that.
	if err := p.Journal.Commit(ctx, pub); err != nil {
		return Publication{}, fmt.Errorf("committing the publication: %w", err)
	}
	pub, err = p.finish(ctx, pub)
	if err != nil {
		return pub, err
	}
	return pub, p.Sweep(ctx, u.Set)
}

// Preview encodes the documents of u without keeping them, and returns the publication
// that Publish would make. Written contains the keys whose bytes would be new.
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
			err = p.pending(ctx, last, foreign) // the file may belong to a publication that Recover will finish
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

// pending returns foreign, unless its key is that of a document of pub. In that case it
// returns the error of standing for that document.
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
// staged documents without a commit. It returns the completed publication, or a zero one.
// Every publication begins with Recover.
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
			return fmt.Errorf("publishing: Change List %d: expected it to begin where the previous one ends", w.Number)
		}
	}
	return CheckSet(u.Set)
}

// stage writes the documents of u durably to the staging bucket. It returns a *NotOursError
// if a foreign file is at the key of a document.
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

func (p *Publisher) keep() time.Duration { return cmp.Or(p.Keep, defaultKeep) }
