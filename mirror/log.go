package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// publishersKey is the directory with a file for each publication that reads the log of
// the mirror. The log is written while the directory exists.
const publishersKey = ours + "/publishers"

const (
	maxPublisher  = 4096           // size of a file in bytes
	maxPublishers = 1000           // number of files that are read
	touchEvery    = 24 * time.Hour // interval at which a file is written even if its publication has read nothing new
)

// publisher is the content of the file of a publication.
type publisher struct {
	Read int64     `json:"read"` // number of the last change that the publication has read
	Seen time.Time `json:"seen"` // time at which the publication registered last
}

// Register makes commits of the mirror in dir write a log, and keep the changes after
// the number read, until the publication name has not registered for a while (see
// Mirror.TrimLog). It needs no lock, since each publication replaces its own file. No
// other publication of the mirror may have the same name.
func Register(ctx context.Context, dir, name string, read int64, now time.Time) (err error) {
	key := publishersKey + "/" + name
	if strings.Contains(name, "/") || blob.ValidKey(key) != nil {
		return fmt.Errorf("register the publication %q: expected a valid file name", name)
	}
	// The directory for temporary files is used by this publication only.
	files, err := blob.OpenDir(dir, blob.DirOptions{Temp: ours + "/registering/" + name, FileMode: fileMode, DirMode: oursMode})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	was, ok, err := readPublisher(ctx, files, key)
	if err != nil {
		return err
	}
	if age := now.Sub(was.Seen); ok && was.Read == read && age >= 0 && age < touchEvery {
		return nil
	}
	if err := files.Clean(ctx); err != nil {
		return err
	}
	text, err := json.Marshal(publisher{Read: read, Seen: now.UTC()})
	if err == nil {
		_, err = blob.Write(ctx, files, strings.NewReader(string(text)+"\n"), blob.Put{Key: key})
	}
	return err
}

// readPublisher returns the content of a publication's file. It returns false if the
// file is missing or incomplete; the publication then counts as one that has read
// nothing.
func readPublisher(ctx context.Context, files blob.Bucket, key string) (p publisher, ok bool, err error) {
	text, err := blob.ReadAll(ctx, files, key, maxPublisher)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	return p, json.Unmarshal(text, &p) == nil, nil
}

// published reports whether commits have to write the log.
func (m *Mirror) published() (bool, error) {
	k, err := m.disk.lstat(publishersKey)
	return k != absent, err
}

// TrimLog removes the changes that no publication needs from the log. A publication
// that has not registered for the time forget is removed; when it registers again, it
// compares everything that the mirror holds.
func (m *Mirror) TrimLog(ctx context.Context, forget time.Duration) error {
	if m.readOnly {
		return ErrReadOnly
	}
	if is, err := m.published(); err != nil || !is {
		return errors.Join(err, m.own.CutLog(ctx))
	}
	first, err := m.forgetPublishers(ctx, forget)
	switch {
	case err != nil:
		return err
	case first >= 0:
		return m.own.TrimLog(ctx, first)
	case m.disk.root.Remove(publishersKey) == nil:
		return m.own.CutLog(ctx)
	}
	is, err := m.published()
	if err == nil && !is { // the directory was removed with its last file
		err = m.own.CutLog(ctx)
	}
	return err
}

// forgetPublishers removes the publications that registered last longer than forget ago. It returns
// the lowest position of the log up to which a remaining publication has read; -1 if none remains.
func (m *Mirror) forgetPublishers(ctx context.Context, forget time.Duration) (first int64, err error) {
	var all []string
	for info, err := range m.files.List(ctx, publishersKey+"/") {
		if err != nil {
			return 0, err
		}
		if all = append(all, info.Key); len(all) == maxPublishers {
			break
		}
	}
	var gone []string
	first = -1
	for _, key := range all {
		p, ok, err := readPublisher(ctx, m.files, key)
		switch {
		case err != nil:
			return 0, err
		case ok && m.o.Now().Sub(p.Seen) > forget:
			gone = append(gone, key)
		case first < 0 || p.Read < first:
			first = p.Read
		}
	}
	return first, m.remove(ctx, gone)
}

// Catalog returns the UUID of the catalog. The numbers in the log are valid for this
// catalog only.
func (m *Mirror) Catalog(ctx context.Context) (string, error) { return m.cat.UUID(ctx) }

// LogEnd returns the number and time of the last change in the log. Everything that
// changes later will be in the log, if it is written (see Register).
func (m *Mirror) LogEnd(ctx context.Context) (seq int64, at time.Time, err error) {
	p, err := m.own.LogEnd(ctx)
	return p.Seq, p.At, err
}

// LogHas reports whether the log has all changes after a number and time that LogEnd or
// EachLogged returned.
func (m *Mirror) LogHas(ctx context.Context, seq int64, at time.Time) (bool, error) {
	return m.own.LogHas(ctx, catalog.LogPosition{Seq: seq, At: at})
}

// EachLogged calls take for the changes with after < number <= through, in order, with
// their number and time. held has the state of a resource after a commit in each of the
// sets, in their order; Member is false for a set without it. The next call overwrites
// held.
func (m *Mirror) EachLogged(ctx context.Context, after, through int64, sets []string, take func(seq int64, at time.Time, held []destination.Held) error) error {
	ids := make([]catalog.SetID, len(sets))
	for i, set := range sets {
		var err error
		if ids[i], err = m.set(ctx, set); err != nil {
			return err
		}
	}
	held := make([]destination.Held, len(sets))
	var last catalog.Logged
	flush := func() error {
		if last.Seq == 0 {
			return nil
		}
		for i := range held {
			if held[i].URI == "" {
				held[i] = destination.Held{URI: last.URI, Path: last.Path}
			}
		}
		return take(last.Seq, last.Datetime, held)
	}
	for one, err := range m.own.Log(ctx, after, through) {
		if err != nil {
			return err
		}
		if one.URI != last.URI || !one.Datetime.Equal(last.Datetime) {
			if err := flush(); err != nil {
				return err
			}
			clear(held)
		}
		if i := slices.Index(ids, one.Set); i >= 0 && one.Change.Change != resourcesync.Deleted {
			one.Member, one.Stored = true, len(one.Digests) > 0
			held[i] = heldState(&one.Resource)
		}
		last = one
	}
	return flush()
}

// Kept returns the path of bytes that a resource had and that another state has
// replaced, relative to the directory; "" if they no longer exist.
func (m *Mirror) Kept(ctx context.Context, h *destination.Held) (path string, err error) {
	sum := h.Digests.Get(resourcesync.SHA256)
	for v, err := range m.own.VersionsOf(ctx, h.URI) {
		if err != nil {
			return "", err
		}
		if v.Kept == "" || v.Length != h.Length || v.Digests.Get(resourcesync.SHA256) != sum {
			continue
		}
		if k, err := m.disk.lstat(v.Kept); k == file || err != nil {
			return v.Kept, err
		}
	}
	return "", nil
}
