package destination

import "context"

// Sync makes one run: Plan, then Mirror.Bind, then Apply. The Report is nil if the run
// ended before Apply, and it is valid even if Apply returns an error. The cost of a
// later run depends only on what has changed since.
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
