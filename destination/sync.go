package destination

import "context"

// Sync makes one run: Plan, then Mirror.Bind, then Apply. The Report is nil if nothing was
// begun, and valid beside an error of Apply. A run that another one follows costs what has
// changed between them.
func (d *Destination) Sync(ctx context.Context) (*Report, error) {
	p, err := d.Plan(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := d.Mirror.Bind(ctx, p.Source, p.Origin, p.URIs()...); err != nil {
		return nil, err
	}
	return d.Apply(ctx, p)
}
