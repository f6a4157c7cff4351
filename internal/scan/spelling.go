package scan

import "context"

// Spelled returns, by path, the URIs of files in an adopted publication that differ from
// those that the function URI returns. The adopted URIs stay in use, because mirrors
// identify resources by URI.
func (d *Deps) Spelled(ctx context.Context, paths []string) (map[string]string, error) {
	if some, err := d.Seen.Spells(ctx); err != nil || !some {
		return nil, err
	}
	ours := make([]string, len(paths))
	for i, p := range paths {
		ours[i] = URI(d.BaseURL, p)
	}
	found, err := d.Seen.Spellings(ctx, ours)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	uris := make(map[string]string, len(found))
	for i, p := range paths {
		if uri, ok := found[ours[i]]; ok {
			uris[p] = uri
		}
	}
	return uris, nil
}

func (d *Deps) uri(path, spelled string) string {
	if spelled != "" {
		return spelled
	}
	return URI(d.BaseURL, path)
}
