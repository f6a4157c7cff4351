package catalog

import (
	"context"
	"fmt"
	"strconv"
)

// Setting returns the value of the setting with this name, or false if it does not
// exist.
func (c *Facts) Setting(ctx context.Context, name string) (string, bool, error) {
	return setting(c.reading(ctx, "read a setting of the catalog"), name)
}

func setting(a querier, name string) (string, bool, error) {
	return queryValue[string](a, "SELECT value FROM setting WHERE name = $1", name)
}

func readNumber(a querier, name string) (n int64, ok bool, err error) {
	text, ok, err := setting(a, name)
	if err != nil || !ok {
		return 0, false, err
	}
	if n, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, false, a.onError(fmt.Errorf("%w: setting %q: %w; %s", ErrDamaged, name, err, hint))
	}
	return n, true, nil
}

// SetSettings stores all given settings, or none of them.
func (c *Facts) SetSettings(ctx context.Context, values map[string]string) error {
	return c.transact(ctx, "write settings of the catalog", func(r *recorder) { r.storeSettings(values) })
}

func (r *recorder) storeSettings(values map[string]string) {
	for name, value := range values {
		r.storeSetting(name, value)
	}
}

func (r *recorder) storeSetting(name, value string) {
	r.exec(`INSERT INTO setting (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

func (r *recorder) readNumber(name string) (n int64, ok bool) {
	n, ok, _ = readNumber(r, name)
	return n, ok
}

func (r *recorder) storeNumber(name string, n int64) { r.storeSetting(name, strconv.FormatInt(n, 10)) }

// MirrorSetting exists in the catalog of a mirror, and PublisherSetting in that of a
// publication.
const (
	MirrorSetting    = "source"   // URI of the Source of the mirror
	PublisherSetting = "base-url" // base URL of the publication
)

// UUID returns the UUID that the catalog got when it was created or when NewUUID was
// called last.
func (c *Catalog) UUID(ctx context.Context) (string, error) {
	id, ok, err := c.Facts.Setting(ctx, UUIDSetting)
	if err == nil && !ok {
		err = c.fail("open the catalog", fmt.Errorf("%w: the catalog has no UUID; %s", ErrDamaged, hint))
	}
	return id, err
}
