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

// publishersKey is the directory with one file for each publication that reads the log
// of changes. Commits write the log only while this directory exists.
const publishersKey = ours + "/publishers"

const (
	maxPublisher  = 4096           // largest size of a publication's file, in bytes
	maxPublishers = 1000           // the largest number of publications whose files are read
	touchEvery    = 24 * time.Hour // the age of a file at which Register writes it again even if nothing else has changed
)

type publisher struct {
	Read int64     `json:"read"` // the number of the last change that the publication has read
	Seen time.Time `json:"seen"` // the time of the last call of Register for the publication
}

// Register registers a publication as a reader of the log of changes of the mirror in
// the directory dir. The parameter lastRead is the number of the last change that the
// publication has read. From then on, commits of the mirror write the log, and the
// mirror keeps all later changes. If the publication does not register again for some
// time, the mirror forgets it (Mirror.TrimLog). Register needs no lock, since each
// publication replaces only its own file. Two publications must not have the same name.
func Register(ctx context.Context, dir, name string, lastRead int64, now time.Time) (err error) {
	key := publishersKey + "/" + name
	if strings.Contains(name, "/") || blob.ValidKey(key) != nil {
		return fmt.Errorf("register the publication %q: expected a valid file name", name)
	}
	// Each publication has its own directory for temporary files, since Clean removes all
	// files there.
	files, err := blob.OpenDir(dir, blob.DirOptions{Temp: ours + "/registering/" + name, FileMode: fileMode, DirMode: oursMode})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	was, ok, err := readPublisher(ctx, files, key)
	if err != nil {
		return err
	}
	if age := now.Sub(was.Seen); ok && was.Read == lastRead && age >= 0 && age < touchEvery {
		return nil
	}
	if err := files.Clean(ctx); err != nil {
		return err
	}
	text, err := json.Marshal(publisher{Read: lastRead, Seen: now.UTC()})
	if err == nil {
		_, err = blob.Write(ctx, files, strings.NewReader(string(text)+"\n"), blob.Put{Key: key})
	}
	return err
}

// readPublisher returns false if the file of the publication is missing or damaged.
// Then the publication counts as one that has read no change.
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

func (m *Mirror) published() (bool, error) {
	k, err := m.disk.lstat(publishersKey)
	return k != absent, err
}

// TrimLog removes from the log the changes that all publications have read. It forgets
// a publication whose last call of Register is longer ago than maxAge. If that
// publication registers again later, it has to compare all resources of the mirror.
func (m *Mirror) TrimLog(ctx context.Context, maxAge time.Duration) error {
	if m.readOnly {
		return ErrReadOnly
	}
	if is, err := m.published(); err != nil || !is {
		return errors.Join(err, m.own.CutLog(ctx))
	}
	first, err := m.forgetPublishers(ctx, maxAge)
	switch {
	case err != nil:
		return err
	case first >= 0:
		return m.own.TrimLog(ctx, first)
	case m.disk.root.Remove(publishersKey) == nil:
		return m.own.CutLog(ctx)
	}
	is, err := m.published()
	if err == nil && !is { // nobody reads the log any more: forgetPublishers has removed the last publication
		err = m.own.CutLog(ctx)
	}
	return err
}

// forgetPublishers removes the publications whose last call of Register is longer ago
// than maxAge. It returns the number of the last change that all remaining publications
// have read; -1 if none remains.
func (m *Mirror) forgetPublishers(ctx context.Context, maxAge time.Duration) (first int64, err error) {
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
		case ok && m.o.Now().Sub(p.Seen) > maxAge:
			gone = append(gone, key)
		case first < 0 || p.Read < first:
			first = p.Read
		}
	}
	return first, m.remove(ctx, gone)
}

// Catalog returns the UUID of the catalog. Numbers of changes in the log are valid only
// for this catalog.
func (m *Mirror) Catalog(ctx context.Context) (string, error) { return m.cat.UUID(ctx) }

// LogEnd returns the number and time of the last change in the log. While the log is
// being written (see Register), every later change is added to it.
func (m *Mirror) LogEnd(ctx context.Context) (seq int64, at time.Time, err error) {
	p, err := m.own.LogEnd(ctx)
	return p.Seq, p.At, err
}

// LogHas reports whether the log has all changes after the change with the given number
// and time, which LogEnd or EachLogged has returned.
func (m *Mirror) LogHas(ctx context.Context, seq int64, at time.Time) (bool, error) {
	return m.own.LogHas(ctx, catalog.LogPosition{Seq: seq, At: at})
}

// EachLogged calls take for the changes in the log with after < number <= through, in
// order. The function take gets the number and the time of the change, and the state of
// the changed resource in each of the given sets, in their order. Member is false in
// the state for a set that does not have the resource. The next call overwrites the
// slice of states.
func (m *Mirror) EachLogged(ctx context.Context, after, through int64, sets []string, take func(seq int64, at time.Time, held []destination.Held) error) error {
	ids := make([]catalog.SetID, len(sets))
	for i, set := range sets {
		var err error
		if ids[i], err = m.setID(ctx, set); err != nil {
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

// Kept returns the path at which the bytes of an earlier state are in the trash,
// relative to the directory of the mirror; "" if these bytes do not exist any more.
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
