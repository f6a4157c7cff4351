package publish

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"instep/internal/versions"
	"instep/source"
)

// WriteZIP packs the current documents of all sets, including dumps and versions but not
// resources, with the paths that they need on a web server. The same documents always give
// the same bytes. In a dry run there are no documents.
func (s *Session) WriteZIP(ctx context.Context, w io.Writer) error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	keys, err := s.documents(ctx)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	for _, key := range keys {
		if err := s.pack(ctx, z, key); err != nil {
			return fmt.Errorf("packing %q: %w", key, err)
		}
	}
	return z.Close()
}

// documents returns the sorted keys of our documents. A set has only a few documents for each
// of its publications that are still kept, so all keys fit in memory.
func (s *Session) documents(ctx context.Context) ([]string, error) {
	var keys []string
	for info, err := range s.bucket.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if !source.MayBeDocument(info.Key) {
			continue
		}
		_, ours, err := journal{s.facts, s.pubs}.Document(ctx, info.Key)
		if err != nil {
			return nil, err
		}
		_, _, version := versions.ParsePlace(info.Key)
		if ours || version && s.hasVersions {
			keys = append(keys, info.Key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (s *Session) pack(ctx context.Context, z *zip.Writer, key string) (err error) {
	r, _, err := s.bucket.Get(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	method := zip.Deflate
	if path.Ext(key) == ".zip" {
		method = zip.Store
	}
	// The member has no time, because the modification time of a document has no meaning.
	member, err := z.CreateHeader(&zip.FileHeader{Name: key, Method: method})
	if err == nil {
		_, err = io.Copy(member, r)
	}
	return err
}
