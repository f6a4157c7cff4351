package publish

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"instep/blob"
	"instep/internal/catalog"
	"instep/resourcesync"
	"instep/source"
)

func (r *run) missing(ctx context.Context) ([]string, error) {
	missing, err := r.pub.Missing(ctx, r.last)
	if err != nil || r.last.DumpsSince.IsZero() {
		return missing, err
	}
	gone, err := r.dumpsBroken(ctx)
	if gone {
		missing = append(missing, strings.TrimPrefix(r.last.Offer(resourcesync.CapabilityChangeDump), r.site.BaseURL))
	}
	return missing, err
}

// dumpsBroken reports whether the open Change List has no Change Dump: its files are
// missing from the output or, after a run that failed, the catalog has no record of it.
func (r *run) dumpsBroken(ctx context.Context) (bool, error) {
	for it, err := range r.pub.Journal.Items(ctx, r.Name, source.ItemChangeDump, r.last.ChangesNumber) {
		if err != nil {
			return false, err
		}
		return r.isIncomplete(ctx, it)
	}
	return true, nil
}

// dropLost removes from the catalog those items (such as Change Lists and packages) whose
// files are missing from the output, so that the next publication does not link to them. If
// a Change List or Change Dump is missing, dropLost also removes the older ones, because
// readers rely on an unbroken sequence. The result dumps reports whether Change Dumps were
// removed.
func (r *run) dropLost(ctx context.Context) (dumps bool, err error) {
	if !r.last.DumpsSince.IsZero() {
		if dumps, err = r.dumpsBroken(ctx); err != nil {
			return false, err
		}
	}
	var dropped []source.Item
	for _, kind := range source.ListKinds {
		items, err := r.lostItems(ctx, kind)
		if err != nil {
			return false, err
		}
		for i := range items {
			patches, err := source.PatchesOf(ctx, r.pub.Journal, r.Name, &items[i])
			if err != nil {
				return false, err
			}
			dropped = append(dropped, patches...)
		}
		dropped = append(dropped, items...)
		dumps = dumps || kind == source.ItemChangeDump && len(items) > 0
	}
	if len(dropped) == 0 {
		return dumps, nil
	}
	f := catalog.Finished{At: r.last.Made}
	for _, it := range dropped {
		f.Retired = append(f.Retired, it.Keys...)
		f.Dropped = append(f.Dropped, catalog.Item{Kind: string(it.Kind), Number: it.Number})
	}
	if err := r.pubs.FinishPublication(ctx, r.last.ID, f); err != nil {
		return false, fmt.Errorf("removing lost documents from the catalog: %w", err)
	}
	return dumps, r.removeArchives(ctx, dropped)
}

// removeArchives removes each archive that lists a lost document. The next publication
// writes these archives again.
func (r *run) removeArchives(ctx context.Context, lost []source.Item) error {
	if r.site.DryRun {
		return nil
	}
	var keys []string
	for _, it := range lost {
		if uri := r.last.Offer(resourcesync.Capability(it.Kind) + "-archive"); uri != "" {
			keys = append(keys, strings.TrimPrefix(uri, r.site.BaseURL))
		}
	}
	if err := blob.Remove(ctx, r.bucket, keys); err != nil {
		return fmt.Errorf("removing archives that list lost documents: %w", err)
	}
	return nil
}

// lostItems returns the items of a kind that can no longer be offered because files are
// missing. It leaves out the open Change List, which the next publication rewrites.
func (r *run) lostItems(ctx context.Context, kind source.ItemKind) (lost []source.Item, err error) {
	var until []source.Item // the items after the last lost item
	for it, err := range r.pub.Journal.Items(ctx, r.Name, kind, 0) {
		if err != nil {
			return nil, err
		}
		gone, err := r.isIncomplete(ctx, it)
		if err != nil {
			return nil, err
		}
		switch {
		case it.From.IsZero():
			if gone {
				lost = append(lost, it)
			}
		case kind == source.ItemChangeList && it.Until.IsZero():
		default:
			until = append(until, it)
			if gone {
				lost, until = append(lost, until...), nil
			}
		}
	}
	return lost, nil
}

func (r *run) isIncomplete(ctx context.Context, it source.Item) (bool, error) {
	packages, err := source.PackagesOf(ctx, r.pub.Journal, r.Name, &it)
	if err != nil {
		return false, err
	}
	keys := slices.Clone(it.Keys)
	for _, p := range packages {
		keys = append(keys, p.Keys...)
	}
	missing, err := source.Absent(ctx, r.bucket, keys...)
	return len(missing) > 0, err
}
