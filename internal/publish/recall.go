package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"instep/internal/catalog"
	"instep/source"
)

// policyRecord is stored as the setting policySetting of a set. It has what the published
// documents say about the set and the Source.
type policyRecord struct {
	Policy source.Policy
	Source source.About
	Dumps  bool
	// Patches is stored here because switching patches on requires a publication, which
	// stores the bytes from which later patches will be made.
	Patches bool `json:",omitempty"`
	// Withdrawn has the names of the sets whose documents were removed from the output.
	// The Source Description no longer lists these sets.
	Withdrawn []string `json:",omitempty"`
}

// recall copies the fields of About that Site.Recall lists from the last publication. If
// a Source has only one set, and the set has no About of its own, the set uses the About
// of the Source.
func (s *Session) recall(ctx context.Context) error {
	set := &s.site.sets[0]
	if len(s.site.Recall) > 0 {
		text, ok, err := s.lastPolicy(ctx, set.Name)
		if err != nil {
			return err
		}
		var last policyRecord
		if ok {
			if err := json.Unmarshal([]byte(text), &last); err != nil {
				return fmt.Errorf("reading the recorded description of set %q: %w", set.Name, err)
			}
		}
		for _, name := range s.site.Recall {
			switch name {
			case "title":
				s.site.About.Title = last.Source.Title
			case "description":
				s.site.About.Description = last.Source.Description
			case "contact":
				s.site.About.Contact = last.Source.Contact
			case "licence":
				s.site.About.Licence = last.Source.Licence
			}
		}
	}
	if len(s.site.sets) == 1 && set.Policy.About == (source.About{}) {
		set.Policy.About = s.site.About
	}
	return nil
}

// lastPolicy returns the policyRecord of the last publication of a set as JSON. If
// nothing was published since a move to another base URL, this is the last publication
// before the move.
func (s *Session) lastPolicy(ctx context.Context, set string) (text string, ok bool, err error) {
	if text, ok, err = s.facts.Setting(ctx, policySetting+set); ok || err != nil {
		return text, ok, err
	}
	moved, err := catalog.OpenReadOnly(ctx, filepath.Join(s.site.State, catalogName+movedSuffix), "", s.site.Now)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, catalog.ErrOlderSchema) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading the state of the publication before it was moved: %w", err)
	}
	defer func() { err = errors.Join(err, moved.Close()) }()
	return moved.Facts.Setting(ctx, policySetting+set)
}
