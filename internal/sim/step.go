package sim

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Counts counts changes by their kind.
type Counts struct{ Created, Updated, Deleted int64 }

// Sum returns the total number of changes of all kinds.
func (c Counts) Sum() int64 { return c.Created + c.Updated + c.Deleted }

// Add adds the counts of another Counts.
func (c *Counts) Add(o Counts) {
	c.Created += o.Created
	c.Updated += o.Updated
	c.Deleted += o.Deleted
}

func (c *Counts) count(k kind) {
	switch k {
	case created:
		c.Created++
	case updated:
		c.Updated++
	case deleted:
		c.Deleted++
	}
}

// CheckStep returns an error if a Step of the given duration would make more than half of
// MaxStep changes on average.
func (m *Model) CheckStep(d time.Duration) error {
	if expected := m.cfg.Rate * d.Seconds(); d < 0 || expected > MaxStep/2 {
		return fmt.Errorf("%g changes a second for %v are too many for one step: expected at most %d changes", m.cfg.Rate, d, MaxStep/2)
	}
	return nil
}

// Step advances the simulated time and makes the changes of that time. It returns the
// number of changes, at most MaxStep.
func (m *Model) Step(ctx context.Context, d time.Duration) (Counts, error) {
	var n Counts
	if err := m.CheckStep(d); err != nil {
		return n, err
	}
	end := m.now + d.Microseconds()
	for at := m.nextTime(m.now); at < end && n.Sum() < MaxStep; at = m.nextTime(at) {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		n.count(m.happen(at))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = max(m.now+1, end)
	return n, nil
}

// nextTime returns a random time for the change after a change at the given time. The times
// are a Poisson process, except that they are at least a microsecond apart.
func (m *Model) nextTime(at int64) int64 {
	if m.cfg.Rate == 0 {
		return 1<<63 - 1
	}
	gap := m.rng.ExpFloat64() / m.cfg.Rate * 1e6
	return at + max(1, int64(min(gap, 1e15)))
}

func (m *Model) happen(at int64) kind {
	k := m.draw()
	id := m.pick(k)
	version := uint32(1)
	if int(id) < len(m.states) {
		version = m.states[id].version
		if k != deleted {
			version++
		}
	}
	e := event{at: at, id: id, version: version, kind: k}
	if k == deleted {
		e.sum = m.states[id].sum
	} else {
		e.sum = m.contentOf(id, version).sum(m.buf)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply(e)
	return k
}

// draw chooses the kind of the next change at random. It keeps the number of resources
// between the number of sets and Model.bound.
func (m *Model) draw() kind {
	n := m.rng.IntN(max(1, m.cfg.Mix.total()))
	k := deleted
	switch {
	case n < m.cfg.Mix.Created:
		k = created
	case n < m.cfg.Mix.Created+m.cfg.Mix.Updated:
		k = updated
	}
	if k == deleted && len(m.alive) <= m.cfg.Sets || k == created && len(m.gone) == 0 && len(m.states) >= m.bound() {
		return updated
	}
	return k
}

func (m *Model) bound() int { return 2*m.cfg.Resources + 100 }

// pick chooses the resource for a change. For half of the creations it chooses a resource
// that was deleted before.
func (m *Model) pick(k kind) uint32 {
	switch k {
	case created:
		if n := len(m.gone); n > 0 && (len(m.states) >= m.bound() || m.rng.IntN(2) == 0) {
			i := m.rng.IntN(n)
			last := n - 1
			m.gone[i], m.gone[last] = m.gone[last], m.gone[i]
			return m.gone[last]
		}
		return uint32(len(m.states))
	case updated:
		if m.rng.Float64() < m.cfg.Hot {
			return m.alive[m.rng.IntN(max(1, len(m.alive)/100))]
		}
	}
	return m.alive[m.rng.IntN(len(m.alive))]
}

// If an event creates a deleted resource again, this resource must be the last of Model.gone.
func (m *Model) apply(e event) {
	switch {
	case int(e.id) == len(m.states):
		m.states = append(m.states, state{place: nowhere})
	case e.kind == created:
		m.gone = m.gone[:len(m.gone)-1]
	}
	s := &m.states[e.id]
	s.version, s.changed, s.sum = e.version, e.at, e.sum
	switch e.kind {
	case created:
		s.place = uint32(len(m.alive))
		m.alive = append(m.alive, e.id)
	case deleted:
		last := m.alive[len(m.alive)-1]
		m.alive[s.place] = last
		m.states[last].place = s.place
		m.alive = m.alive[:len(m.alive)-1]
		s.place = nowhere
		m.gone = append(m.gone, e.id)
	}
	m.now = max(m.now, e.at+1)
	m.remember(e)
}

// remember stores up to one and a half times Config.History events before it drops the oldest
// ones, so that it rarely moves events in memory.
func (m *Model) remember(e event) {
	h := &m.logs[int(e.id)%m.cfg.Sets]
	if len(h.events) >= m.cfg.History+m.cfg.History/2 {
		extra := len(h.events) - m.cfg.History
		h.events = slices.Delete(h.events, 0, extra)
		h.first += int64(extra)
	}
	h.events = append(h.events, e)
}
