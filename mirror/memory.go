package mirror

import (
	"context"
	"fmt"
)

// memoryPrefix distinguishes a Destination's values from the mirror's own settings.
const memoryPrefix = "memory:"

// maxMemory is the largest size of a remembered value, in bytes.
const maxMemory = 64 << 10

// Recall implements destination.Mirror.
func (m *Mirror) Recall(ctx context.Context, name string) (value string, ok bool, err error) {
	if m.cat == nil {
		return "", false, nil
	}
	value, _, err = m.facts.Setting(ctx, memoryPrefix+name)
	return value, value != "", err
}

// Remember implements destination.Mirror.
func (m *Mirror) Remember(ctx context.Context, name, value string) error {
	switch {
	case m.readOnly:
		return ErrReadOnly
	case len(value) > maxMemory:
		return fmt.Errorf("remember %q: expected at most %d bytes, got %d", name, maxMemory, len(value))
	}
	return m.facts.SetSettings(ctx, map[string]string{memoryPrefix + name: value})
}
