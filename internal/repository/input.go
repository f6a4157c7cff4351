package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"instep/blob"
	"instep/internal/oaipmh"
	"instep/internal/scan"
	"instep/resourcesync"
)

// Input publishes the records of a repository as the resources of a set. A resource is
// the file with the metadata of a record. Plan harvests, writes the files of new and
// changed records, and lists all records. Apply records the changes in the catalog, and
// then removes the files of deleted records.
type Input struct {
	*scan.List          // publishes the files of records; Plan sets List.Listing
	Harvest    *Harvest // harvests the records; Plan sets Harvest.Store
	State      string   // the state directory
	Key        Key
	Files      blob.Bucket // the published directory, opened for writing; List.Tree is the same directory, opened for reading
	WithFiles  *Follower   // finds the files to which records link; nil means that these files are not published
	DryRun     bool        // whether Plan only lists the stored records, and sends and writes nothing

	notes []oaipmh.Note
}

var _ scan.Input = (*Input)(nil)

// maxNotes is the largest number of different notes about one run.
const maxNotes = 50

// Observe records a note about a tolerated fault of the repository. It counts equal notes.
// It is meant for the field Observe of an oaipmh.Client.
func (in *Input) Observe(n oaipmh.Note) {
	for i := range in.notes {
		if in.notes[i].What == n.What {
			in.notes[i].N += n.N
			return
		}
	}
	if len(in.notes) < maxNotes {
		in.notes = append(in.notes, n)
	}
}

// Plan implements scan.Input.
func (in *Input) Plan(ctx context.Context) (p *scan.Plan, err error) {
	var sum Summary
	close, err := in.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, close()) }()
	if !in.DryRun {
		if sum, err = in.Harvest.Run(ctx); err == nil {
			err = in.writePending(ctx)
		}
		if err == nil && in.WithFiles != nil {
			err = in.WithFiles.run(ctx, in)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", scan.ErrListing, err)
		}
	}
	in.Listing = in.list
	if p, err = in.List.Plan(ctx); err != nil {
		return nil, err
	}
	in.addNotes(p, &sum)
	return p, nil
}

func (in *Input) openStore(ctx context.Context) (close func() error, err error) {
	in.notes, in.Harvest.Store = nil, nil
	open := Open
	if in.DryRun {
		open = OpenReadOnly
	}
	st, err := open(ctx, in.State, in.Key)
	if in.DryRun && errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	in.Harvest.Store = st
	return st.Close, nil
}

func (in *Input) addNotes(p *scan.Plan, sum *Summary) {
	if in.DryRun {
		p.Notes = append(p.Notes, "a dry run sends no requests to the repository, so this is the state after the last harvest")
		return
	}
	p.Notes = append(p.Notes, sum.String())
	for _, n := range in.notes {
		p.Notes = append(p.Notes, "tolerated: "+n.String())
	}
	if in.WithFiles != nil {
		in.WithFiles.addNotes(in, p)
	}
	for _, b := range sum.Bad {
		in.Fail(p, &scan.FileError{Path: in.Harvest.Client.BaseURL, Err: b.Err})
	}
}

// Apply implements scan.Input.
func (in *Input) Apply(ctx context.Context, p *scan.Plan) (scan.Result, error) {
	r, err := in.List.Apply(ctx, p)
	if err != nil || in.DryRun {
		return r, err
	}
	close, err := in.openStore(ctx)
	if err != nil {
		return r, err
	}
	return r, errors.Join(in.removeFiles(ctx), close())
}

func (in *Input) list(ctx context.Context, _ time.Time) iter.Seq2[scan.Listed, error] {
	return func(yield func(scan.Listed, error) bool) {
		if in.Harvest.Store == nil {
			return // in a dry run before the first harvest there are no records
		}
		for some, err := range in.Harvest.Store.recordsWhere(ctx, "NOT deleted OR wrong IS NOT NULL", batch) {
			if err != nil {
				yield(scan.Listed{}, err)
				return
			}
			for _, k := range some {
				e, err := scan.Listed{URI: scan.URI(in.BaseURL, k.path), Path: k.path, Type: mediaType}, error(nil)
				if k.wrong != "" {
					err = errors.New(k.wrong)
				} else {
					e.LastMod = lastMod(k.datestamp)
				}
				if !yield(e, err) {
					return
				}
			}
		}
		if in.WithFiles == nil {
			return
		}
		for some, err := range in.Harvest.Store.files(ctx) {
			if err != nil {
				yield(scan.Listed{}, err)
				return
			}
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

const mediaType = "application/xml"

func (in *Input) writePending(ctx context.Context) error {
	for some, err := range in.Harvest.Store.recordsWhere(ctx, "pending IS NOT NULL", batch) {
		if err == nil {
			err = in.writeFiles(ctx, some)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFiles first records in the Store which files belong to the harvest. Otherwise the
// next run could take a file of an interrupted run for that of another program.
func (in *Input) writeFiles(ctx context.Context, some []storedRecord) (err error) {
	var own, others []storedRecord
	for i := range some {
		foreign, err := in.isForeign(ctx, &some[i])
		if err != nil {
			return err
		}
		if foreign {
			others = append(others, some[i])
		} else {
			own = append(own, some[i])
		}
	}
	st := in.Harvest.Store
	if err := st.update(ctx, `wrong = 'file "' || path || '": it does not belong to this harvest, so move it elsewhere'`, others); err != nil {
		return err
	}
	if err := st.update(ctx, "written = 1, wrong = NULL", own); err != nil {
		return err
	}
	b, err := in.Files.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Discard()) }()
	for i := range own {
		if err := create(ctx, b, own[i].path, own[i].pending); err != nil {
			return err
		}
	}
	if err := b.Commit(ctx); err != nil {
		return err
	}
	return st.update(ctx, "pending = NULL", own)
}

// isForeign reports whether a file of another program is at the path of a record. Such a file
// was not written by this harvest, and its content differs from the record.
func (in *Input) isForeign(ctx context.Context, k *storedRecord) (bool, error) {
	if k.written {
		return false, nil
	}
	r, _, err := in.Files.Get(ctx, k.path, 0, -1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, blob.ErrForeign), errors.Is(err, blob.ErrClash):
		return true, nil
	case err != nil:
		return false, err
	}
	h := sha256.New()
	_, err = io.Copy(h, r)
	want := sha256.Sum256(k.pending)
	return !bytes.Equal(h.Sum(nil), want[:]), errors.Join(err, r.Close())
}

func create(ctx context.Context, b blob.Batch, key string, text []byte) error {
	o, err := b.Create(ctx)
	if err != nil {
		return err
	}
	if _, err := o.Write(text); err != nil {
		return errors.Join(err, o.Close())
	}
	if err := o.Close(); err != nil {
		return err
	}
	b.Put(o, blob.Put{Key: key})
	return nil
}

func (in *Input) removeFiles(ctx context.Context) error {
	for some, err := range in.Harvest.Store.recordsWhere(ctx, "deleted AND written AND wrong IS NULL", batch) {
		if err != nil {
			return err
		}
		b, err := in.Files.Begin(ctx)
		if err != nil {
			return err
		}
		for i := range some {
			b.Delete(some[i].path)
		}
		if err := b.Commit(ctx); err != nil {
			return err
		}
		if err := in.Harvest.Store.update(ctx, "written = 0", some); err != nil {
			return err
		}
	}
	return nil
}

func lastMod(datestamp string) (d resourcesync.Datetime) {
	if s, err := oaipmh.ParseStamp(datestamp); err == nil {
		d, _ = resourcesync.ParseDatetime(s.String()) // no error is possible, because every valid datestamp is a W3C Datetime
	}
	return d
}
