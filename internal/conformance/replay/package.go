package replay

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
)

func (s *Set) unpack(dump *Document) ([]change, error) {
	var all []change
	for _, e := range dump.URLs {
		data, err := s.w.bytes(e.Loc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dump.URI, err)
		}
		if err := checkBytes(e.Loc, e.MD, data); err != nil {
			return nil, fmt.Errorf("%s: %w", dump.URI, err)
		}
		contents, err := s.w.bytes(link(e.Links, "contents"))
		if err != nil {
			return nil, fmt.Errorf("%s: contents: %w", e.Loc, err)
		}
		changes, err := members(e.Loc, data, contents, dump.MD.Capability+"-manifest")
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	return all, nil
}

func members(uri string, data, contents []byte, capability string) ([]change, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", uri, f.Name, err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", uri, f.Name, err)
		}
		if files[f.Name] != nil {
			return nil, fmt.Errorf("%s: the package has two members called %s", uri, f.Name)
		}
		files[f.Name] = append(body, 0)[:len(body):len(body)] // an empty member must not be nil, because nil means that the package has no such member
	}
	if !bytes.Equal(files["manifest.xml"], contents) {
		return nil, fmt.Errorf("%s: the manifest in the package differs from the target of the link rel=\"contents\"", uri)
	}
	manifest, err := parse(uri+"!manifest.xml", contents)
	if err != nil {
		return nil, err
	}
	if manifest.MD.Capability != capability {
		return nil, fmt.Errorf("%s: capability %q, expected %q", manifest.URI, manifest.MD.Capability, capability)
	}
	delete(files, "manifest.xml")
	all, err := listedMembers(manifest, files)
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%s: %d members of the package are not listed in its manifest", uri, len(files))
	}
	return all, err
}

// listedMembers returns the changes that a manifest lists, and deletes their members from
// files.
func listedMembers(manifest *Document, files map[string][]byte) ([]change, error) {
	var all []change
	for _, e := range manifest.URLs {
		at, err := parseDatetime(e.MD.Datetime)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", manifest.URI, e.Loc, err)
		}
		c := change{e.Loc, e.MD.Change, "", at}
		if e.MD.Change != "deleted" {
			name := strings.TrimPrefix(e.MD.Path, "/")
			body := files[name]
			if body == nil {
				return nil, fmt.Errorf("%s: %s: the package has no member called %q", manifest.URI, e.Loc, e.MD.Path)
			}
			if err := checkBytes(e.Loc, e.MD, body); err != nil {
				return nil, fmt.Errorf("%s: %w", manifest.URI, err)
			}
			delete(files, name)
			c.sum = sum(body)
		}
		all = append(all, c)
	}
	return all, nil
}
