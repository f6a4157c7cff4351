package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"instep/internal/missed"
	"instep/internal/versions"
	"instep/mirror"
)

// listFetched prints the versions that sync --versions fetched from the Source, newest first,
// with the times that the Source gives for them.
func (l *lister) listFetched(ctx context.Context, state, uri string, at, since time.Time) (err error) {
	store, err := missed.OpenReadOnly(ctx, state)
	if err != nil || store == nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var all []versions.Version
	for v, err := range store.List(ctx, uri) {
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	until := ""
	for i, v := range slices.Backward(all) {
		ended := until
		until = stamp(v.Since)
		over := i+1 < len(all) && !all[i+1].Since.After(at)
		if v.Deleted || v.Since.Before(since) || !at.IsZero() && (v.Since.After(at) || over) {
			continue
		}
		if l.limitReached() {
			break
		}
		l.a.out.record(&versionRecord{
			URI: uri, Memento: true, Bytes: num(v.Length), Hash: v.SHA256.String(), MediaType: v.Type, From: stamp(v.Since), Until: ended,
		})
		l.a.out.line("%s – …  %s  %s  fetched as a version of the Source (%s --to FILE)",
			v.Since.Format(time.RFC3339), humanSize(v.Length), v.SHA256, shellLine("instep", "restore", l.dir, uri, "--memento", stamp(v.Since)))
	}
	return nil
}

// restoreMemento writes the version of a resource that was current at the Source at a given time,
// if sync --versions fetched it.
func (a *app) restoreMemento(ctx context.Context, state, uri, name string, at time.Time, file string) (err error) {
	v, store := versions.Version{}, (*missed.Store)(nil)
	if store, err = missed.OpenReadOnly(ctx, state); store != nil {
		defer func() { err = errors.Join(err, store.Close()) }()
		v, err = store.At(ctx, uri, at)
	} else if err == nil {
		err = versions.ErrNoVersion
	}
	if err == nil && v.Deleted {
		err = fmt.Errorf("%w: the Source had deleted it", versions.ErrNoVersion)
	}
	if errors.Is(err, versions.ErrNoVersion) {
		return fmt.Errorf("%s: %w: the version that was current at the Source at %s was not fetched", name, mirror.ErrNoVersion, stamp(at))
	}
	if err != nil {
		return err
	}
	err = writeCopy(ctx, file, func() (io.ReadCloser, error) { return store.Open(ctx, v.SHA256) })
	if err != nil {
		return err
	}
	a.out.end(summary{Status: "restored", Bytes: num(v.Length)},
		fmt.Sprintf("Status: RESTORED to %s   %s, the version that the Source had from %s on", file, humanSize(v.Length), v.Since.Format(time.RFC3339)))
	return nil
}
