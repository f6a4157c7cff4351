package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"instep/blob"
	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Stray implements destination.Mirror. It never returns a file of another resource.
// Without Options.Adopt, it returns only a file that is at the path of the resource and
// has its bytes. Such a file can exist if the catalog is older than the files, for
// example because the catalog was restored from a backup.
func (m *Mirror) Stray(ctx context.Context, w *harvest.Resource, h *destination.Held) (string, bool, error) {
	if m.disk == nil { // the mirror's directory does not exist, so it has no files
		return "", false, nil
	}
	row := catalog.Resource{URI: h.URI, Path: h.Path, Stored: h.Stored, Stat: h.Stamp}
	candidates := m.candidates(w, row.Path)
	if !m.o.Adopt {
		candidates = m.ownPaths(w, &row)
	}
	for path, err := range candidates {
		if errors.Is(err, destination.ErrNoPlace) {
			return "", false, nil // no error here, since fetching the resource will report the same error
		}
		if err != nil {
			return "", false, err
		}
		ok, err := m.isStray(ctx, path, w, row.Path)
		if ok && !m.o.Adopt {
			ok, err = m.hasBytes(ctx, path, w)
		}
		if ok || err != nil {
			return path, ok, err
		}
	}
	return "", false, nil
}

// ownPaths yields the paths at which this mirror may have stored the wanted bytes
// although its catalog has no record of them. It yields none if the Source gives no
// digest that can prove the bytes.
func (m *Mirror) ownPaths(w *harvest.Resource, row *catalog.Resource) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		switch {
		case len(w.Digests) == 0:
		case m.flat != nil:
			if sum := w.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
				yield(contentKey(sum), nil)
			}
		case row.Stored && !m.touched(row):
		case row.URI != "":
			yield(row.Path, nil)
		default:
			segments, err := m.ownSegments(m.names, w.URI)
			path := ""
			if err == nil {
				path, err = m.findOwn("", segments)
			}
			if path != "" || err != nil {
				yield(path, err)
			}
		}
	}
}

// touched reports whether somebody has written to the file of a resource since the
// mirror stored it.
func (m *Mirror) touched(row *catalog.Resource) bool {
	info, err := m.strayInfo(row.Path)
	s, ok := readStamp(row.Stat)
	return err == nil && info != nil && !(ok && s.matches(info.ModTime()))
}

// hasBytes reports whether a digest proves that the file at path has the bytes that the
// Source states.
func (m *Mirror) hasBytes(ctx context.Context, path string, w *harvest.Resource) (bool, error) {
	digests, found, err := hashFile(ctx, m.files, path, w.Length, algorithmsOf(w)...)
	if err != nil || !found {
		return false, err
	}
	how, _ := differs(w, w.Length.Int64(), digests)
	return how == "" && proves(w, digests), nil
}

// isStray reports whether the file at path may have the wanted bytes and is not the
// file of another resource. The parameter own is the path of the resource itself.
func (m *Mirror) isStray(ctx context.Context, path string, w *harvest.Resource, own string) (bool, error) {
	info, err := m.strayInfo(path)
	if err != nil || info == nil || w.Length.Known() && info.Size() != w.Length.Int64() {
		return false, err
	}
	if len(w.Digests) == 0 && !hasStatedTime(w, info) {
		return false, nil
	}
	if m.cat == nil || path == own {
		return true, nil
	}
	known, err := m.isNamed(ctx, path)
	return !known, err
}

// strayInfo returns nil if there is no regular file at path. It does not follow links.
func (m *Mirror) strayInfo(path string) (fs.FileInfo, error) {
	if first, _, _ := strings.Cut(path, "/"); blob.ValidKey(path) != nil || strings.EqualFold(first, ours) {
		return nil, nil
	}
	k, at, err := m.disk.look(path)
	if err != nil || k != file || at != path {
		return nil, err
	}
	info, err := m.disk.root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, ignoreAbsent(err)
	}
	return info, nil
}

// hasStatedTime reports whether a file has the length and the modification time that
// the Source states. If there are no digests, only this shows which bytes the file has.
// Programs that copy a Source often set the modification time.
func hasStatedTime(w *harvest.Resource, info fs.FileInfo) bool {
	return w.Length.Known() && info.Size() == w.Length.Int64() && w.LastMod.Complete() &&
		info.ModTime().Unix() == w.LastMod.Time().Unix()
}

// candidates yields the paths at which the wanted bytes may be: first the own path of
// the resource, then paths that mirrors of either layout use, then paths that other
// programs use.
func (m *Mirror) candidates(w *harvest.Resource, own string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if own != "" && !yield(own, nil) {
			return
		}
		p, err := splitURI(w.URI)
		if err != nil {
			yield("", err)
			return
		}
		for _, n := range slices.Compact([]*fileNames{m.names, nil}) {
			segments, err := m.ownSegments(n, w.URI)
			path := ""
			if err == nil {
				path, err = m.findOwn("", segments)
			}
			if err != nil {
				yield("", err)
				return
			}
			if path != "" && !yield(path, nil) {
				return
			}
		}
		for path := range foreignNames(&p, w.URI, len(w.Digests) > 0) {
			if !yield(path, nil) {
				return
			}
		}
		if sum := w.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
			yield(contentKey(sum), nil) // the path of the bytes in a mirror with the layout Flat
		}
	}
}

// ownSegments returns the names of the path for a URI according to the rules n. If Bind
// was not called yet, it assumes that the Source has the origin of the URI.
func (m *Mirror) ownSegments(n *fileNames, uri string) ([]segment, error) {
	p, err := splitURI(uri)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	home := cmp.Or(m.home, p.origin)
	m.mu.Unlock()
	return n.segments(home, uri)
}

// findOwn returns the path of the file below dir that a mirror would have created for
// the given segments; "" if there is none. It tries names with a hash first, since such
// a name is stronger evidence.
func (m *Mirror) findOwn(dir string, segments []segment) (string, error) {
	s := segments[0]
	for level := max(s.level, 1); level >= s.level; level-- {
		path := dir + s.name(level)
		k, err := m.disk.lstat(path)
		if err != nil {
			return "", fmt.Errorf("search for a file to adopt: %w", err)
		}
		switch {
		case len(segments) == 1 && k == file:
			return path, nil
		case len(segments) > 1 && k == directory:
			if found, err := m.findOwn(path+"/", segments[1:]); found != "" || err != nil {
				return found, err
			}
		}
	}
	return "", nil
}

// foreignNames yields the paths at which other programs may have stored the bytes of a
// URI: wget, with or without a directory for the host; the ResourceSync client in
// Python, which does not escape URIs; and programs that copy the files of a server. If
// cut is set, it also yields each path without its first directories, which some
// programs can leave out.
func foreignNames(p *parts, uri string, cut bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		query, _, _ := strings.Cut(uri[p.before+len(p.path):], "#")
		seen := map[string]bool{}
		once := func(path string) bool {
			if seen[path] {
				return true
			}
			seen[path] = true
			return yield(path)
		}
		for _, form := range pathForms(p.path, query) {
			for _, host := range p.hostDirectories() {
				if !once(host + form) {
					return
				}
			}
			for cut {
				_, rest, ok := strings.Cut(form, "/")
				if !ok {
					break
				}
				if form = rest; !once(form) {
					return
				}
			}
		}
	}
}

// hostDirectories returns the directories that programs create for an origin, and ""
// for programs that create none.
func (o origin) hostDirectories() []string {
	return []string{"", o.host + "/", o.host + ":" + o.port + "/", o.host + "+" + o.port + "/"}
}

// indexName is the file that programs create for a URI that ends with a slash.
const indexName = "index.html"

// pathForms returns the file paths that different programs use for a URI with this path
// and query.
func pathForms(path, query string) []string {
	path = strings.TrimPrefix(path, "/")
	var all []string
	for _, name := range []func(string) string{unescape, asWritten, wgetName, wgetWindowsName} {
		segments := strings.Split(path, "/")
		for i, s := range segments {
			segments[i] = name(s)
		}
		last := &segments[len(segments)-1]
		if *last == "" {
			*last = indexName
		}
		stem := strings.Join(segments, "/")
		if query == "" {
			all = append(all, stem, stem+".html")
			continue
		}
		for _, mark := range []string{"?", "@"} {
			named := stem + mark + name(query[1:])
			all = append(all, named, named+".html")
		}
	}
	return all
}

func asWritten(s string) string { return s }

// wgetName decodes a segment and then, like wget, escapes only slashes and control
// characters.
func wgetName(s string) string { return wgetQuote(unescape(s), "/") }

func wgetWindowsName(s string) string { return wgetQuote(unescape(s), `/\|:?"*<>`) }

func wgetQuote(s, unsafe string) string {
	return percentEncode(s, func(c byte) bool { return c < ' ' || c == 0x7f || strings.IndexByte(unsafe, c) >= 0 })
}

func percentEncode(s string, unsafe func(byte) bool) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if unsafe(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Strangers yields the paths of the files in the directory that do not belong to the
// mirror, in no defined order.
func (m *Mirror) Strangers(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for infos, err := range spool.Batches(m.files.List(ctx, ""), chunkSize) {
			var own map[string]bool
			if err == nil {
				own, err = m.filesOf(ctx, keysOf(infos))
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, info := range infos {
				if own[info.Key] {
					continue
				}
				state, err := m.disk.inState(info.Key)
				if !state && !yield(info.Key, err) || err != nil {
					return
				}
			}
		}
	}
}

func (m *Mirror) filesOf(ctx context.Context, paths []string) (own map[string]bool, err error) {
	own = make(map[string]bool, len(paths))
	var folds []string
	for _, p := range paths {
		switch {
		case strings.HasPrefix(p, ours+"/"):
			own[p] = true
		case m.flat != nil:
			if own[p], err = m.flat.hasNamed(ctx, p); err != nil {
				return nil, err
			}
		default:
			folds = append(folds, m.names.key(p))
		}
	}
	if m.flat != nil {
		return own, nil
	}
	taken, err := m.own.Files(ctx, folds)
	for _, p := range paths {
		own[p] = own[p] || taken[m.names.key(p)]
	}
	return own, err
}

// proves reports whether the digests of a file include one that the Source states.
func proves(w *harvest.Resource, found resourcesync.Digests) bool {
	for _, d := range w.Digests {
		if found.Get(d.Algorithm()) == d {
			return true
		}
	}
	return false
}
