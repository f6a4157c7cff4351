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
	text, ok, err := m.facts.Setting(ctx, keptSettings)
	if err != nil || !ok {
		return s, false, err
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, false, fmt.Errorf("setting %q of the catalog: %w", keptSettings, err)
	}
	return s, true, nil
}

// KeepSettings replaces the Settings of the mirror.
func (m *Mirror) KeepSettings(ctx context.Context, s Settings) error {
	if m.readOnly {
		return ErrReadOnly
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if was, ok, err := m.facts.Setting(ctx, keptSettings); err != nil || ok && was == string(text) {
		return err
	}
	return m.facts.SetSettings(ctx, map[string]string{keptSettings: string(text)})
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
