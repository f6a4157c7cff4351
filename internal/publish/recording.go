package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
)

// ErrNoBytes means that an application recorded a change whose bytes cannot be found,
// although the dumps or versions of the set must contain them.
var ErrNoBytes = errors.New("the bytes of the resource were not found, but the dumps or versions of the set need them")

// Known returns the recorded resources of a set that have the given URIs, in the same
// order. For a URI that is not recorded it returns a zero Resource.
func (s *Session) Known(ctx context.Context, set string, uris []string) ([]catalog.Resource, error) {
	one, err := s.set(set)
	if err != nil {
		return nil, err
	}
	return s.facts.Lookup(ctx, one.id, uris)
}

// Look reads the file at a path of the site's directory as a scan does. It returns
// fs.ErrNotExist if there is no such file or the file is not published. It is safe for
// concurrent use. If the set has dumps, Look stores the bytes for them until release is
// called. The caller must call release: after Record, or when it decides not to call
// Record. Without dumps, release is nil.
func (s *Session) Look(ctx context.Context, set, path string) (r catalog.Resource, release func(), err error) {
	one, err := s.set(set)
	if err != nil {
		return r, nil, err
	}
	if s.root() == nil || one.Input != nil {
		return r, nil, errors.New("expected a uri, since the set does not consist of the files of a directory")
	}
	f := s.filesOf(ctx, one)
	look := func(keep blob.Batch) (catalog.Resource, error) {
		r, err := f.dir.Look(ctx, path, keep)
		return r, errors.Join(f.unsure, err)
	}
	if one.keepsBytes() {
		return one.content.hold(ctx, look)
	}
	r, err = look(nil)
	return r, nil, err
}

type setFiles struct {
	dir    scan.Dir
	unsure error // the error if it cannot be determined whether a file is a document of Instep
}

func (s *Session) filesOf(ctx context.Context, one *setState) *setFiles {
	f := &setFiles{}
	f.dir = scan.Dir{
		Deps: s.deps(one), Tree: scan.RootTree(s.root()), Choice: one.Choice, Rules: one.Rules,
		Ours: func(path string) bool {
			ours, err := s.isOurs(ctx, one, path)
			f.unsure = errors.Join(f.unsure, err)
			return ours || err != nil
		},
	}
	return f
}

func (s *Session) deps(one *setState) scan.Deps {
	return scan.Deps{Facts: s.facts, Seen: s.seen, Set: one.id, BaseURL: s.site.BaseURL, Algorithms: s.site.Algorithms, Now: s.site.Now}
}

// Accept checks a resource that a caller describes by its URI, and returns the resource
// to record. In a set of files the URI must be that of a file, because the next scan
// would delete any other resource. In a set with dumps the bytes must match the
// description, and are stored until release is called, as in Look. The error is
// ErrNoBytes if the bytes cannot be found.
func (s *Session) Accept(ctx context.Context, set string, told catalog.Resource) (r catalog.Resource, release func(), err error) {
	one, err := s.set(set)
	if err != nil {
		return r, nil, err
	}
	if one.Input != nil {
		return s.acceptListed(ctx, one, told)
	}
	if s.root() == nil {
		path, ok := scan.PathOf(s.site.BaseURL, told.URI)
		if told.Path = path; !ok {
			told.Path = told.URI
		}
		return told, nil, nil
	}
	path, ok := scan.FileOf(s.site.BaseURL, told.URI)
	if ok {
		uri, err := s.URIOf(ctx, path)
		if err != nil {
			return r, nil, err
		}
		ok = uri == told.URI
	}
	if !ok {
		return r, nil, fmt.Errorf("expected the uri of a file, below %s: the set consists of the files of a directory, and the next scan would delete this resource again", s.site.BaseURL)
	}
	return s.acceptFile(ctx, one, path, told)
}

// URIOf returns the URI of the file at a path of the site's directory.
func (s *Session) URIOf(ctx context.Context, path string) (string, error) {
	deps := scan.Deps{Facts: s.facts, Seen: s.seen, BaseURL: s.site.BaseURL}
	spelled, err := deps.Spelled(ctx, []string{path})
	if uri, ok := spelled[path]; ok {
		return uri, nil
	}
	return scan.URI(s.site.BaseURL, path), err
}

func (s *Session) acceptFile(ctx context.Context, one *setState, path string, described catalog.Resource) (r catalog.Resource, release func(), err error) {
	if !one.keepsBytes() {
		f := s.filesOf(ctx, one)
		err := f.dir.Has(path)
		err = errors.Join(err, f.unsure)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the set consists of files, and the next scan would delete this resource again", err)
		}
		if described.Path = path; err == nil {
			described.Remainder, err = f.dir.Links(ctx, path)
		}
		return described, nil, err
	}
	found, release, err := s.Look(ctx, one.Name, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNoBytes, err)
	}
	if err == nil {
		err = checkDescription(&described, &found)
	}
	if err != nil {
		if release != nil {
			release()
		}
		return r, nil, err
	}
	if !described.LastMod.IsZero() {
		found.LastMod = described.LastMod
	}
	if described.Type != "" {
		found.Type = described.Type
	}
	return found, release, nil
}

// checkDescription returns an error if a given length or digest differs from the file.
func checkDescription(told, found *catalog.Resource) error {
	if told.Length.Known() && told.Length != found.Length {
		return fmt.Errorf("length: file %q has %d bytes, the change states %d", found.Path, found.Length.Int64(), told.Length.Int64())
	}
	for _, d := range told.Digests {
		if has := found.Digests.Get(d.Algorithm()); !has.IsZero() && has != d {
			return fmt.Errorf("hash: file %q has %s, the change states %s", found.Path, has, d)
		}
	}
	return nil
}

// acceptListed does the work of Accept for a set with an Input. If the resource is
// recorded already, its path stays. An Input cannot look up a single resource, so only the
// next scan finds out whether the Input lists the resource.
func (s *Session) acceptListed(ctx context.Context, one *setState, told catalog.Resource) (r catalog.Resource, release func(), err error) {
	known, err := s.facts.Lookup(ctx, one.id, []string{told.URI})
	if err != nil {
		return r, nil, err
	}
	if told.Path = told.URI; known[0].Member {
		told.Path, told.Stat = known[0].Path, known[0].Stat // use the recorded path, because the Input opens the bytes by this path
	}
	if one.keepsBytes() {
		r, release, err = one.content.hold(ctx, func(keep blob.Batch) (catalog.Resource, error) { return s.copyListed(ctx, one, told, keep) })
	} else {
		r = told
	}
	r.Stat = "" // an empty Stat makes the next scan check the resource
	return r, release, err
}

func (s *Session) copyListed(ctx context.Context, one *setState, told catalog.Resource, keep blob.Batch) (r catalog.Resource, err error) {
	in, err := one.Input(s.deps(one))
	if err != nil {
		return r, err
	}
	opener, ok := in.(Opener)
	if !ok {
		return r, ErrNoBytes
	}
	body, err := opener.Open(ctx, told)
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrNoBytes, err)
	}
	defer body.Close()
	o, err := keep.Create(ctx)
	if err != nil {
		return r, err
	}
	length := int64(-1)
	if told.Length.Known() {
		length = told.Length.Int64()
	}
	hasher := resourcesync.NewHasher(s.site.Algorithms...)
	n, err := io.Copy(io.MultiWriter(hasher, o), resourcesync.NewVerifyReader(body, length, told.Digests))
	if err = errors.Join(err, o.Close()); err != nil {
		return r, err
	}
	told.Length, told.Digests = resourcesync.Bytes(n), hasher.Digests()
	keep.Put(o, blob.Put{Key: scan.KeepKey(told.Digests.Get(resourcesync.SHA256))})
	return told, nil
}

// checkBytesKept returns an error if the set has dumps or versions, and the bytes of a
// change are not in the store for them.
func (s *Session) checkBytesKept(ctx context.Context, one *setState, changes []catalog.Change) error {
	if !one.keepsBytes() {
		return nil
	}
	for i := range changes {
		ch := &changes[i]
		if ch.Change == resourcesync.Deleted {
			continue
		}
		sum := ch.Digests.Get(resourcesync.SHA256)
		err := fs.ErrNotExist
		if !sum.IsZero() {
			_, err = one.content.Stat(ctx, scan.KeepKey(sum))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoBytes
		}
		if err != nil {
			return fmt.Errorf("recording %q: %w", ch.URI, err)
		}
	}
	return nil
}
