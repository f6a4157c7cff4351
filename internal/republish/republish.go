// Package republish makes a mirror the input of a publication. It lists the resources
// of the mirror as resources of the publisher, with links to their origin (1.1 §14.8).
//
// [Input] is a scan.Input. It reads the catalog of the mirror, and of the files only
// those that were modified after they were stored. The attributes in an entry are those
// that the origin states: lastmod, type, encoding, attributes of other namespaces, and
// the links that [Inherits] accepts. A resource is not listed if the mirror is in doubt
// about its state: see [Doubt].
package republish

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"instep/internal/scan"
)

// maxListings is the number of times that Plan lists the mirror before it returns
// ErrDisturbed.
const maxListings = 3

// Input is a scan.Input that publishes a mirror. In its List, Tree must be the directory of
// the mirror, and Listing must be nil. If the change log of the mirror has all changes
// since the last publication, Input lists only these changes, otherwise all resources of
// the mirror.
type Input struct {
	*scan.List
	Mirror Options
}

// Plan lists the resources of the mirror and compares them with the recorded state. It
// returns ErrNoBaseline if no set of the mirror has been copied completely.
func (in Input) Plan(ctx context.Context) (p *scan.Plan, err error) {
	for try := 1; ; try++ {
		p, err = in.plan(ctx)
		if !errors.Is(err, ErrDisturbed) || try == maxListings {
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
	if err := l.chooseSets(ctx); err != nil {
		return nil, err
	}
	list := *in.List
	r := reader{Input: &in, lister: &l}
	if err := r.setListing(ctx, &list); err != nil {
		return nil, err
	}
	p, err := list.Plan(ctx)
	if err == nil {
		err = l.checkSets(ctx)
	}
	if err == nil {
		err = r.storePosition(ctx, p)
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
	l.addNotes(p, in.BaseURL)
	return p, nil
}

func (l *lister) addNotes(p *scan.Plan, base string) {
	p.Notes = append(p.Notes, l.notes...)
	if len(l.origins) > 0 {
		p.Notes = append(p.Notes, l.originsNote())
	}
	if l.unoriginal > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d resources are listed under their URI at the Source, because the URI in their \"via\" link belongs to another resource or cannot be listed; for example %q", l.unoriginal, l.firstUnoriginal))
	}
	if l.incomplete > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d resources have links or attributes at their origin that a document must not contain, so these were left out; for example %q", l.incomplete, l.firstIncomplete))
	}
	if n := p.Excluded[scan.Loop]; n > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d resources were first published at %s, so they are not published again", n, base))
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
