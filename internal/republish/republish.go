// Package republish makes a mirror the input of a publication: it lists what the mirror
// holds as resources of the publisher, with links to their origin (1.1 §14.8).
//
// [Input] is a scan.Input. It reads the catalog of the mirror, and only those files
// that were changed since they were stored. The other facts in an entry are those that
// the origin states: lastmod, type, encoding, attributes of others, and the links that
// [Inherits] accepts. It does not list a resource about which there is doubt: see
// [Doubt].
package republish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"instep/internal/scan"
)

// tries is the number of times that the mirror is listed, if runs disturb the listing.
const tries = 3

// Input publishes a mirror. Its List has the directory of the mirror as Tree, and no
// Listing. It lists the changes since the last publication if the mirror's log has all
// of them, otherwise everything that the mirror holds.
type Input struct {
	*scan.List
	Mirror Options
}

// Plan lists the mirror and compares it with the recorded state. It returns
// ErrNoBaseline if no set has been copied completely.
func (in Input) Plan(ctx context.Context) (p *scan.Plan, err error) {
	for try := 1; ; try++ {
		p, err = in.plan(ctx)
		if !errors.Is(err, ErrDisturbed) || try == tries {
			return p, err
		}
	}
}

func (in Input) plan(ctx context.Context) (_ *scan.Plan, err error) {
	m, err := in.Mirror.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if m.Shares() && !in.Mirror.OriginalURIs {
		return nil, ErrShared
	}
	l := lister{Options: &in.Mirror, m: m, base: in.BaseURL, rules: in.Rules, spool: in.Spool}
	if err := l.choose(ctx); err != nil {
		return nil, err
	}
	list := *in.List
	r := reader{Input: &in, lister: &l}
	if err := r.begin(ctx, &list); err != nil {
		return nil, err
	}
	p, err := list.Plan(ctx)
	if err == nil {
		err = l.still(ctx)
	}
	if err == nil {
		err = r.end(ctx, p)
	}
	if unsteady := m.Steady(); unsteady != nil {
		err = errors.Join(fmt.Errorf("%w: %w", ErrDisturbed, unsteady), err)
	}
	if err != nil {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
		return nil, err
	}
	if l.at.Before(p.At) {
		p.At = l.at
	}
	l.note(p, in.BaseURL)
	return p, nil
}

// note adds remarks about the listing to the plan.
func (l *lister) note(p *scan.Plan, base string) {
	p.Notes = append(p.Notes, l.notes...)
	if len(l.origins) > 0 {
		p.Notes = append(p.Notes, l.allowed())
	}
	if l.kept > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("resources that have the URI of the Source, as their via names another resource or nothing that can be listed: %d, such as %q", l.kept, l.firstKept))
	}
	if l.unfit > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("what the origin says of %d resources was left out in part, as no document can say it, of %q for one", l.unfit, l.firstUnfit))
	}
	if n := p.Excluded[scan.Loop]; n > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d resources came from %s in the first place: they are not published again", n, base))
	}
}

// Runs returns a text that changes with each complete run on the mirror.
func (o *Options) Runs(ctx context.Context) (_ string, err error) {
	m, err := o.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	sets, err := m.Sets(ctx)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, set := range sets {
		at, complete, err := m.Committed(ctx, set)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&text, set, complete, at.UnixMicro())
	}
	return text.String(), nil
}
