package catalog

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
)

// statements are those that are needed again and again: parsing one that takes or finds
// many rows costs about as much as some of the rows.
type statements struct {
	mu    sync.Mutex           // guards the rest
	ready map[string]*sql.Stmt // by their text
	asked map[string]bool      // needed before, and not ready
}

// maxStatements bounds them; what is beyond is parsed each time.
const maxStatements = 64

// of returns a statement for a transaction; nil if it is not ready.
func (s *statements) of(ctx context.Context, tx *sql.Tx, query string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ready := s.ready[query]; ready != nil {
		return tx.StmtContext(ctx, ready)
	}
	if len(s.ready)+len(s.asked) < maxStatements {
		if s.asked == nil {
			s.asked = map[string]bool{}
		}
		s.asked[query] = true
	}
	return nil
}

// prepare makes ready what was needed, before a transaction has the only connection.
func (s *statements) prepare(ctx context.Context, db *sql.DB) error {
	s.mu.Lock()
	asked := slices.Collect(maps.Keys(s.asked))
	clear(s.asked)
	s.mu.Unlock()
	for _, query := range asked {
		ready, err := db.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.keep(query, ready)
		s.mu.Unlock()
	}
	return nil
}

func (s *statements) keep(query string, ready *sql.Stmt) {
	if s.ready == nil {
		s.ready = map[string]*sql.Stmt{}
	}
	s.ready[query] = ready
}

// query asks outside of a transaction.
func (s *statements) query(ctx context.Context, db *sql.DB, query string, args ...any) (*sql.Rows, error) {
	s.mu.Lock()
	ready, room := s.ready[query], len(s.ready) < maxStatements
	s.mu.Unlock()
	switch {
	case ready != nil:
		return ready.QueryContext(ctx, args...)
	case !room:
		return db.QueryContext(ctx, query, args...)
	}
	ready, err := db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	faster := s.ready[query]
	if faster == nil {
		s.keep(query, ready)
	}
	s.mu.Unlock()
	if faster != nil {
		if err := ready.Close(); err != nil {
			return nil, err
		}
		ready = faster
	}
	return ready.QueryContext(ctx, args...)
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, ready := range s.ready {
		errs = append(errs, ready.Close())
	}
	clear(s.ready)
	return errors.Join(errs...)
}
