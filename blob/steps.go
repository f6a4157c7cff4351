package blob

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	errSpent        = errors.New("the batch was already committed or discarded")
	errOtherBatch   = errors.New("the object belongs to another batch")
	errObjectIsOpen = errors.New("the object was not closed, or was discarded")
	errChanged      = errors.New("the object has changed since it was taken")
)

type steps struct {
	mu   sync.Mutex // guards list until the batch commits
	list []step
}

type stepKind uint8

const (
	stepPut stepKind = iota
	stepMove
	stepDelete
)

type step struct {
	kind     stepKind
	object   Object
	from, to string
	ifAbsent bool
	keep     string
	modTime  time.Time
}

func (s *steps) put(o Object, p Put) {
	s.add(step{kind: stepPut, object: o, to: p.Key, ifAbsent: p.IfAbsent, keep: p.Keep, modTime: p.ModTime})
}

func (s *steps) move(from, to string) {
	s.add(step{kind: stepMove, from: from, to: to})
}

func (s *steps) delete(key string) {
	s.add(step{kind: stepDelete, from: key})
}

func (s *steps) add(st step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, st)
}

// check must be called before the first step takes effect, so that a batch with an invalid
// step has no effect.
func (s *steps) check(key func(string) error, ready func(Object) error) error {
	put := make(map[Object]struct{}, len(s.list))
	for _, st := range s.list {
		for _, k := range st.keys() {
			if err := key(k); err != nil {
				return err
			}
		}
		if st.kind != stepPut {
			continue
		}
		if _, twice := put[st.object]; twice {
			return fmt.Errorf("put %q: the same object was put twice", st.to)
		}
		put[st.object] = struct{}{}
		if err := ready(st.object); err != nil {
			return fmt.Errorf("put %q: %w", st.to, err)
		}
	}
	return nil
}

func (s step) keys() []string {
	switch {
	case s.kind == stepMove:
		return []string{s.from, s.to}
	case s.kind == stepDelete:
		return []string{s.from}
	case s.keep != "":
		return []string{s.to, s.keep}
	}
	return []string{s.to}
}
