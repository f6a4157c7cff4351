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

func setting(a asker, name string) (string, bool, error) {
	return value[string](a, "SELECT value FROM setting WHERE name = $1", name)
}

func number(a asker, name string) (n int64, ok bool, err error) {
	text, ok, err := setting(a, name)
	if err != nil || !ok {
		return 0, false, err
	}
	if n, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, false, a.failed(fmt.Errorf("%w: setting %q: %w; %s", ErrDamaged, name, err, hint))
	}
	return n, true, nil
}

// SetSettings stores all given settings, or none of them.
func (c *Facts) SetSettings(ctx context.Context, values map[string]string) error {
	return c.transact(ctx, "write settings of the catalog", func(r *recorder) { r.keepAll(values) })
}

func (r *recorder) keepAll(values map[string]string) {
	for name, value := range values {
		r.keep(name, value)
	}
}

func (r *recorder) keep(name, value string) {
	r.exec(`INSERT INTO setting (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

func (r *recorder) number(name string) (n int64, ok bool) {
	n, ok, _ = number(r, name)
	return n, ok
}

func (r *recorder) keepNumber(name string, n int64) { r.keep(name, strconv.FormatInt(n, 10)) }

// The names of two settings. A catalog belongs either to a mirror or to a publication,
// and has one of them.
const (
	MirrorSetting    = "source"   // URI of the Source of the mirror
	PublisherSetting = "base-url" // base URL of the publication
)

// UUID returns the UUID that the catalog got when it was created.
func (c *Catalog) UUID(ctx context.Context) (string, error) {
	id, ok, err := c.Facts.Setting(ctx, UUIDSetting)
	if err == nil && !ok {
		err = c.fail("open the catalog", fmt.Errorf("%w: the catalog has no UUID; %s", ErrDamaged, hint))
	}
	return id, err
}
