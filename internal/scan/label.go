package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"instep/internal/catalog"
	"instep/internal/glob"
	"instep/internal/mediatype"
)

var errGlob = errors.New("this is no pattern")

func (r *Rule) validate() error {
	if !glob.Valid(r.Match) {
		return fmt.Errorf("glob %q: %w", r.Match, errGlob)
	}
	if r.ChangeFreq != "" && !r.ChangeFreq.Known() {
		return fmt.Errorf("rule for %q: expected a changefreq such as always, hourly, daily, weekly, monthly, yearly or never, found %q", r.Match, r.ChangeFreq)
	}
	return nil
}

// sameLabels reports whether two resources have the same type, encoding, changefreq
// and further attributes.
func sameLabels(a, b *catalog.Resource) bool {
	return a.Type == b.Type && a.Encoding == b.Encoding && a.ChangeFreq == b.ChangeFreq && a.Remainder == b.Remainder
}

// relabel determines, by the present rules, the type, encoding, changefreq and links of a
// file whose bytes did not change.
func (r *reader) relabel(ctx context.Context, it item) hashed {
	h := r.begin(it)
	h.labelOnly = true
	if h.label.Type != "" {
		return r.withLinks(ctx, h)
	}
	h.err = r.open(it, &h, func(f fs.File, _ fs.FileInfo) error {
		prefix, err := readPrefix(contextReader{ctx, f}, r.buffer[:mediatype.PrefixSize])
		if err == nil {
			h.label.Type = mediatype.Of(h.path, prefix)
		}
		return err
	})
	return r.withLinks(ctx, h.markGone())
}

func (r *reader) withLinks(ctx context.Context, h hashed) hashed {
	if h.err != nil || h.gone {
		return h
	}
	if h.remainder, h.err = r.d.remainder(ctx, h.path, h.label.Links); h.err != nil {
		h.err = errors.Join(h.err, h.discard())
	}
	return h
}

// rulesSetting returns the name of the setting that stores a digest of the rules that were
// last applied to all members of the set.
func (d *Dir) rulesSetting() string { return fmt.Sprintf("scan rules %d", d.Set) }

// rulesChanged reports whether the rules have changed since they were last applied to
// all members, so that recorded types, encodings, changefreqs or links may be
// outdated.
func (d *Dir) rulesChanged(ctx context.Context) (bool, error) {
	recorded, _, err := d.Facts.Setting(ctx, d.rulesSetting())
	return recorded != d.rulesDigest(), err
}

func (d *Dir) keepRules(ctx context.Context) error {
	return d.Facts.SetSettings(ctx, map[string]string{d.rulesSetting(): d.rulesDigest()})
}
