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

// publishersKey is the directory with a file for each publication that reads the log of the
// mirror. It is there as long as the log is to be written.
const publishersKey = ours + "/publishers"

const (
	maxPublisher  = 4096           // bytes of such a file
	maxPublishers = 1000           // that are read
	touchEvery    = 24 * time.Hour // how often such a file is written though nothing was read
)

// publisher is such a file.
type publisher struct {
	Read int64     `json:"read"` // number of the last change that the publication has
	Seen time.Time `json:"seen"` // when it was there last
}

// Register makes commits of the mirror in dir write a log, and keep what comes after the
// change read of it for a publication, until that has not registered for a while (see
// Mirror.TrimLog). It needs no lock: the file is replaced as a whole, and every publication
// has its own. name is a name that no other publication of the mirror has.
func Register(ctx context.Context, dir, name string, read int64, now time.Time) (err error) {
	key := publishersKey + "/" + name
	if strings.Contains(name, "/") || blob.ValidKey(key) != nil {
		return fmt.Errorf("register the publication %q: this is no name", name)
	}
	// A directory for temporary files that nobody else uses, neither a run nor a publication.
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

// readPublisher returns the contents of such a file; false if there is none, or only part
// of one: then it counts as one that has read nothing.
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

// TrimLog removes what no publication needs of the log. One that has not registered for that
// long is forgotten: when it comes again it compares all that the mirror holds.
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
	if err == nil && !is { // it went with the last file
		err = m.own.CutLog(ctx)
	}
	return err
}

// forgetPublishers forgets the publications that have not come for a while, and returns the
// number of the first change that one of the others may still need; -1 if there is none.
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
		case ok && m.now().Sub(p.Seen) > forget:
			gone = append(gone, key)
		case first < 0 || p.Read < first:
			first = p.Read
		}
	}
	if len(gone) == 0 {
		return first, nil
	}
	return first, m.remove(ctx, gone)
}

// Catalog returns the identity of the catalog: the log is of this one alone.
func (m *Mirror) Catalog(ctx context.Context) (string, error) { return m.cat.UUID(ctx) }

// LogEnd returns the number and the moment of the last change of the log: it has none of what
// the mirror holds now, and all that comes later, if it is written (see Register).
func (m *Mirror) LogEnd(ctx context.Context) (seq int64, at time.Time, err error) {
	p, err := m.own.LogEnd(ctx)
	return p.Seq, p.At, err
}

// LogHas reports whether the log has all changes after one that LogEnd or EachLogged gave.
func (m *Mirror) LogHas(ctx context.Context, seq int64, at time.Time) (bool, error) {
	return m.own.LogHas(ctx, catalog.LogPosition{Seq: seq, At: at})
}

// EachLogged calls take for the changes after one number up to another, in their order, with
// the number and the moment of each: how some sets, in their order, hold a resource after a
// commit. Member is false where one does not. The next call overwrites held.
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

// Kept returns the path, below the directory, of bytes that a resource had and that another
// state has replaced; "" if they are gone.
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
