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

// linkFileSuffix is the suffix of the name of a link file: NAME.links.json has the
// links of the file NAME.
const linkFileSuffix = ".links.json"

const (
	maxLinkFile = 64 << 10 // largest size of a link file, in bytes
	maxName     = 255      // largest length of a file name, in bytes
)

// linkFile returns the links in the link file of a file. It returns none if there is no
// link file, or if Choice.LinkFiles is false.
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
		return nil, fmt.Errorf("%q has the name of a link file, but it is not a regular file", name)
	case info.Size() > maxLinkFile:
		return nil, fmt.Errorf("the link file %q has %d bytes; expected at most %d", name, info.Size(), maxLinkFile)
	}
	f, err := d.Tree.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	links, err := readLinks(io.LimitReader(f, maxLinkFile))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read the links in %q: %w", name, err)
	}
	return links, nil
}

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
		return nil, errors.New("expected the end of the link file after the array")
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
