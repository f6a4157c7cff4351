package scan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"instep/resourcesync"
)

// linkFileSuffix ends the name of a file with the links of the file whose name is before it.
const linkFileSuffix = ".links.json"

const (
	maxLinkFile = 64 << 10 // bytes of a link file
	maxName     = 255      // bytes of a name in a directory
)

// linkFile returns the links that the file beside the one at a path has for it, in the form
// of those of rules; none if there is no such file, or Choice.LinkFiles is not set.
func (d *Dir) linkFile(name string) ([]Link, error) {
	if !d.LinkFiles || len(path.Base(name))+len(linkFileSuffix) > maxName {
		return nil, nil
	}
	name += linkFileSuffix
	info, err := d.Tree.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for links in %q: %w", name, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q has the name of a file with links, and is no regular file", name)
	case info.Size() > maxLinkFile:
		return nil, fmt.Errorf("%q has %d bytes; expected links in at most %d", name, info.Size(), maxLinkFile)
	}
	f, err := d.Tree.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	links, err := readLinks(io.LimitReader(f, maxLinkFile))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("links in %q: %w", name, err)
	}
	return links, nil
}

// fileLink is a link as a file has it.
type fileLink struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
	Type string `json:"type"`
	Pri  int    `json:"pri"`
}

// readLinks reads the JSON of a link file: an array of objects with rel, href, type and pri.
func readLinks(r io.Reader) ([]Link, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var all []fileLink
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("expected an array of objects with rel, href, type and pri: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("expected nothing after the array")
	}
	if len(all) > maxRuleLinks {
		return nil, fmt.Errorf("expected at most %d links, found %d", maxRuleLinks, len(all))
	}
	links := make([]Link, len(all))
	for i := range all {
		links[i] = Link(all[i])
		err := links[i].Check()
		if err == nil && !resourcesync.IsRelation(links[i].Rel) {
			err = fmt.Errorf("expected a registered relation such as describedby, or a URI, found %q", links[i].Rel)
		}
		if err != nil {
			return nil, fmt.Errorf("link %d: %w", i+1, err)
		}
	}
	return links, nil
}
