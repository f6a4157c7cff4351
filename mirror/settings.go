package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Settings are values that a program stores in a mirror for later runs. The mirror itself
// does not use them. `instep sync` stores its flags there.
type Settings struct {
	// Values has the values of each setting by name. Some settings may be unknown to this
	// version of the program.
	Values map[string][]string `json:"values"`
	// Origin is the origin for which the user has given files with secrets, such as
	// passwords; "" if there are none.
	Origin string `json:"origin,omitempty"`
}

// keptSettings is the setting that stores the Settings as JSON. A Source cannot make a
// Destination overwrite it, since a Destination stores only settings that begin with
// memoryPrefix.
const keptSettings = "kept settings"

// Settings returns the Settings that KeepSettings has stored; false if there are none,
// or if there is no mirror.
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

// readSetting decodes the JSON of a setting into value. It also returns the JSON; "" if
// there is no such setting.
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

// keepSetting stores value as JSON, unless this JSON is equal to stored, the text that
// readSetting has returned.
func (m *Mirror) keepSetting(ctx context.Context, name string, value any, stored string) error {
	text, err := json.Marshal(value)
	if err != nil || string(text) == stored {
		return err
	}
	return m.facts.SetSettings(ctx, map[string]string{name: string(text)})
}

// OldestVersion returns the day, in UTC, on which the oldest earlier state of a resource
// ended; false if the mirror has no earlier states. It ignores days before this program
// existed, which can only come from a wrong clock.
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

// memoryPrefix is the beginning of the names of settings that a Destination stores. No
// other setting has a name that begins with it.
const memoryPrefix = "memory:"

// maxMemory is the largest size of a value that a Destination stores, in bytes.
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
		return fmt.Errorf("remember %q: the value has %d bytes, expected at most %d", name, len(value), maxMemory)
	}
	return m.facts.SetSettings(ctx, map[string]string{memoryPrefix + name: value})
}
