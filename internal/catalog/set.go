package catalog

import "context"

// NamedSet is a set and its name.
type NamedSet struct {
	ID   SetID
	Name string
}

// Set returns the ID of the set with this name, and creates the set if it is missing.
func (c *Facts) Set(ctx context.Context, name string) (SetID, error) {
	const find = "SELECT id FROM sets WHERE name = $1"
	id, ok, err := queryValue[SetID](c.reading(ctx, "find a set in the catalog"), find, name)
	if err != nil || ok {
		return id, err
	}
	err = c.transact(ctx, "make a set in the catalog", func(r *recorder) {
		r.exec("INSERT INTO sets (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name)
		r.scanRow([]any{&id}, find, name)
	})
	return id, err
}

// Sets returns all sets in the order in which they were created.
func (c *Facts) Sets(ctx context.Context) ([]NamedSet, error) {
	return queryAll(c.reading(ctx, "list the sets of the catalog"), nil, func(s *NamedSet) []any { return []any{&s.ID, &s.Name} },
		"SELECT id, name FROM sets ORDER BY id")
}
