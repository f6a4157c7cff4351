package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Settings are values that a program stores in a mirror for later runs. The mirror
// itself does not use them; `instep sync` stores its flags here.
type Settings struct {
	// Values has the values of each setting by name. It may have names that only newer
	// versions know.
	Values map[string][]string `json:"values"`
	// Origin is the origin of the Source for which files with secrets were given; "" if
	// there were none.
	Origin string `json:"origin,omitempty"`
}

// keptSettings is the name of the setting with the Settings as JSON. A Destination's
// values have a prefix, so no Source can overwrite it.
const keptSettings = "kept settings"

// Settings returns what KeepSettings has stored; false if there is no mirror, or an
// earlier version of this program created it.
func (m *Mirror) Settings(ctx context.Context) (s Settings, ok bool, err error) {
	if m.cat == nil {
		return s, false, nil
	}
	text, err := m.readSetting(ctx, keptSettings, &s)
	return s, text != "", err
}

// KeepSettings replaces the Settings of the mirror.
func (m *Mirror) KeepSettings(ctx context.Context, s Settings) error {
	if m.readOnly {
		return ErrReadOnly
	}
	stored, _, err := m.facts.Setting(ctx, keptSettings)
	if err != nil {
		return err
	}
	return m.keepSetting(ctx, keptSettings, s, stored)
}

// readSetting reads a setting in JSON into value, and returns its text; "" if there is
// none.
func (m *Mirror) readSetting(ctx context.Context, name string, value any) (text string, err error) {
	text, ok, err := m.facts.Setting(ctx, name)
	if err != nil || !ok {
		return "", err
	}
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return "", fmt.Errorf("setting %q of the catalog: %w", name, err)
	}
	return text, nil
}

// keepSetting writes value as a setting in JSON if its text differs from the stored one.
func (m *Mirror) keepSetting(ctx context.Context, name string, value any, stored string) error {
	text, err := json.Marshal(value)
	if err != nil || string(text) == stored {
		return err
	}
	return m.facts.SetSettings(ctx, map[string]string{name: string(text)})
}

// OldestVersion returns the day in UTC on which the first of the stored states ended;
// false if there is none. It ignores impossible dates, from a wrong clock.
func (m *Mirror) OldestVersion(ctx context.Context) (time.Time, bool, error) {
	if m.cat == nil {
		return time.Time{}, false, nil
	}
	days, err := m.own.VersionDays(ctx, func(day string) bool { return day < firstDay })
	if err != nil || len(days) == 0 {
		return time.Time{}, false, err
	}
	day, err := time.Parse(time.DateOnly, days[0])
	return day, err == nil, err
}

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
