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

// recogniseMirror checks whether the directory to publish is a mirror. If so, the mirror lists the
// resources of each set that has no other list.
func (c *configuration) recogniseMirror() error {
	if c.Dir == "" {
		return nil
	}
	mirrored, err := mirror.IsMirror(c.Dir)
	if err != nil {
		return fmt.Errorf("%w: %w", scan.ErrRoot, err)
	}
	for i := range c.Sets {
		f := &c.Sets[i].From
		if f.Mirror = ""; mirrored && len(f.givenKeys()) == 0 {
			f.Mirror = c.Dir
		}
	}
	return nil
}

// checkMirror checks the keys below "from:" that require a mirror. It returns the first invalid
// key, and an error about its value.
func (f *fromConfig) checkMirror() (key string, err error) {
	for key, given := range map[string]bool{"original_uris": f.OriginalURIs, "also": len(f.Also) > 0, "mirror_state": f.MirrorState != ""} {
		if given && f.Mirror == "" {
			return key, errors.New("expected a mirror of instep sync as the directory to publish")
		}
	}
	for _, name := range f.Also {
		if !slices.Contains(republish.Doubts, scan.Reason(name)) {
			return "also", fmt.Errorf("expected %s, found %q", doubts(), name)
		}
	}
	return "", nil
}

func doubts() string {
	var names []string
	for _, d := range republish.Doubts {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}

// errMirrorState means that the state of the mirror to be published was not found.
var errMirrorState = errors.New("open the mirror that is published")

func (f *fromConfig) republishOptions(now func() time.Time) republish.Options {
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
		m, err := openExisting(ctx, mirror.Options{Dir: f.Mirror, State: f.MirrorState, Now: now})
		if errors.Is(err, mirror.ErrLostCatalog) || errors.Is(err, mirror.ErrWrongStore) {
			err = fmt.Errorf("%w: %w", errMirrorState, err)
		}
		return m, err
	}
	return o
}

func (f *fromConfig) mirrorInput(set *setConfig, tree func() (scan.Tree, error)) func(scan.Deps) (scan.Input, error) {
	return func(deps scan.Deps) (scan.Input, error) {
		files, err := tree()
		if err != nil {
			return nil, err
		}
		l := &scan.List{Deps: deps, Tree: files, Include: set.Include, Exclude: set.Exclude, Rules: set.rules()}
		return republish.Input{List: l, Mirror: f.republishOptions(deps.Now)}, nil
	}
}

func (c *configuration) mirrorRuns(now func() time.Time) func(context.Context) (string, error) {
	for i := range c.Sets {
		if f := &c.Sets[i].From; f.Mirror != "" {
			o := f.republishOptions(now)
			return o.Runs
		}
	}
	return nil
}
