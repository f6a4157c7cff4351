//go:build unix

package bench

import (
	"bufio"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"instep/resourcesync"
)

// set is a Resource List Index and its Resource Lists, as files of one directory.
type set struct {
	dir            string
	lists, entries int // how many lists, and entries in each
}

const host = "https://collection.example.org/"

func (s set) index() string     { return filepath.Join(s.dir, "index.xml") }
func (s set) list(i int) string { return filepath.Join(s.dir, listName(i)) }
func (s set) packed() string    { return filepath.Join(s.dir, "packed.xml.gz") }
func (s set) small() string     { return filepath.Join(s.dir, "small.xml") }

func listName(i int) string { return fmt.Sprintf("list-%02d.xml", i) }

var taken = time.Date(2024, 5, 1, 9, 0, 0, 0, time.UTC)

func header(root resourcesync.Root) resourcesync.Header {
	return resourcesync.Header{
		Root:     root,
		Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityResourceList, At: resourcesync.DatetimeOf(taken)},
		Links:    []resourcesync.Link{{Rel: "up", Href: host + "capabilitylist.xml"}},
	}
}

// entry is the i-th resource: with lastmod, length, type, md5 and sha-256.
func entry(i int) resourcesync.Entry {
	name := fmt.Sprintf("object-%07d", i)
	hasher := resourcesync.NewHasher(resourcesync.MD5, resourcesync.SHA256)
	io.WriteString(hasher, name) // never fails
	return resourcesync.Entry{
		Loc:     host + "departments/paintings-and-drawings/rooms/17/cabinets/north-wall/drawers/04/" + name + ".html",
		LastMod: resourcesync.DatetimeOf(taken.Add(-time.Duration(i) * time.Second)),
		Metadata: resourcesync.Metadata{
			Digests: hasher.Digests(), Length: resourcesync.Bytes(int64(1000 + i*7)), Type: "application/vnd.example.object+xml",
		},
	}
}

// write writes all documents of the set.
func (s set) write() error {
	err := writeDocument(s.index(), header(resourcesync.SitemapIndex), s.lists, func(i int) resourcesync.Entry {
		return resourcesync.Entry{Loc: host + listName(i), Metadata: resourcesync.Metadata{At: resourcesync.DatetimeOf(taken)}}
	})
	for i := range s.lists {
		err = errors.Join(err, writeDocument(s.list(i), header(resourcesync.URLSet), s.entries, func(n int) resourcesync.Entry {
			return entry(i*s.entries + n)
		}))
	}
	return errors.Join(err, writeDocument(s.small(), header(resourcesync.URLSet), s.entries/10, entry), compress(s.packed(), s.list(0)))
}

func writeDocument(path string, h resourcesync.Header, n int, entry func(int) resourcesync.Entry) error {
	return create(path, func(w io.Writer) error {
		enc, err := resourcesync.NewEncoder(w, h)
		if err != nil {
			return err
		}
		for i := range n {
			if err := enc.Encode(entry(i)); err != nil {
				return err
			}
		}
		return enc.Close()
	})
}

func compress(to, from string) error {
	return create(to, func(w io.Writer) error {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		zw := gzip.NewWriter(w)
		_, err = io.Copy(zw, f)
		return errors.Join(err, zw.Close())
	})
}

func create(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(fill(w), w.Flush(), f.Close())
}

// sums are the digests that entry gives the resource of that name.
func sums(name string) ([md5.Size]byte, [sha256.Size]byte) {
	return md5.Sum([]byte(name)), sha256.Sum256([]byte(name))
}
