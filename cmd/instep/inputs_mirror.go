package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"instep/internal/republish"
	"instep/internal/scan"
	"instep/mirror"
)

// recognise checks whether the directory is a mirror. If it is, the mirror becomes the
// input of every set without another input.
func (c *configuration) recognise() error {
	if c.Dir == "" {
		return nil
	}
	mirrored, err := mirror.IsMirror(c.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", scan.ErrRoot, err)
	}
	for i := range c.Sets {
		f := &c.Sets[i].From
		if f.Mirror = ""; mirrored && len(f.given()) == 0 {
			f.Mirror = c.Dir
		}
	}
	return nil
}

// checkMirror returns the first invalid key about a mirror, below from, with the
// reason.
func (f *fromConfig) checkMirror() (key string, err error) {
	for key, given := range map[string]bool{"original_uris": f.OriginalURIs, "also": len(f.Also) > 0, "mirror_state": f.MirrorState != ""} {
		if given && f.Mirror == "" {
			return key, errors.New("the directory to publish is no mirror of instep sync")
		}
	}
	for _, name := range f.Also {
		if !slices.Contains(republish.Doubts, scan.Reason(name)) {
			return "also", fmt.Errorf("expected %s, found %q", doubts(), name)
		}
	}
	return "", nil
}

// doubts lists the values of from.also for messages.
func doubts() string {
	var names []string
	for _, d := range republish.Doubts {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}

// errMirrorState means that a mirror to be published has no state where it is expected.
var errMirrorState = errors.New("publish a mirror")

// republished returns the options for publishing the mirror.
func (f *fromConfig) republished(now func() time.Time) republish.Options {
	o := republish.Options{Kept: mirror.KeptSet, OriginalURIs: f.OriginalURIs}
	if f.Set != "" {
		o.Sets = []string{f.Set}
	}
	for _, name := range f.Also {
		o.Also = append(o.Also, scan.Reason(name))
	}
	o.Register = func(ctx context.Context, name string, read int64) error {
		return mirror.Register(ctx, f.Mirror, name, read, now())
	}
	o.Open = func(ctx context.Context) (republish.Mirror, error) {
		m, err := mirror.OpenReadOnly(ctx, mirror.Options{Dir: f.Mirror, State: f.MirrorState, Now: now})
		if err == nil && !m.Exists() {
			err = errors.Join(fmt.Errorf("%q: %w", f.Mirror, mirror.ErrWrongStore), m.Close())
		}
		if errors.Is(err, mirror.ErrLostCatalog) || errors.Is(err, mirror.ErrWrongStore) {
			err = fmt.Errorf("%w: %w", errMirrorState, err)
		}
		return m, err
	}
	return o
}

// mirrorInput returns the input of a set that is published from a mirror.
func (f *fromConfig) mirrorInput(set *setConfig, tree func() (scan.Tree, error)) func(scan.Deps) (scan.Input, error) {
	return func(deps scan.Deps) (scan.Input, error) {
		files, err := tree()
		if err != nil {
			return nil, err
		}
		l := &scan.List{Deps: deps, Tree: files, Include: set.Include, Exclude: set.Exclude, Rules: set.rules()}
		return republish.Input{List: l, Mirror: f.republished(deps.Now)}, nil
	}
}

// mirrorRuns returns watch.Options.Runs for the published mirror; nil if there is none.
func (c *configuration) mirrorRuns(now func() time.Time) func(context.Context) (string, error) {
	for i := range c.Sets {
		if f := &c.Sets[i].From; f.Mirror != "" {
			o := f.republished(now)
			return o.Runs
		}
	}
	return nil
}
