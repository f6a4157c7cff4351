package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"instep/lint"
	"instep/pack"
)

// path checks the document in a file, or the documents in a directory.
func (l *Linter) path(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return l.fail(ctx, path, err)
	case l.isState(path):
		return l.fail(ctx, path, errState)
	case info.IsDir():
		return l.directory(ctx, path)
	case info.Mode().IsRegular():
		return l.file(ctx, path, l.content)
	}
	return l.pipe(ctx, path, path)
}

func (l *Linter) isState(path string) bool { return l.IsState != nil && l.IsState(path) }

var (
	errState   = errors.New("the path is in a state directory of instep, which contains no published documents")
	errNothing = errors.New("the directory contains no ResourceSync document, and no file that seems to be meant as one")
)

// file opens a file and calls check with its content.
func (l *Linter) file(ctx context.Context, path string, check func(context.Context, string, content) error) error {
	f, err := os.Open(path)
	if err != nil {
		return l.fail(ctx, path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return l.fail(ctx, path, err)
	}
	return check(ctx, path, content{f, info.Size()})
}

// directory checks the files in a directory that are documents or are named like
// documents. It skips state directories, and hidden directories except .well-known.
func (l *Linter) directory(ctx context.Context, dir string) error {
	before := l.Checked + l.Failed
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return l.fail(ctx, path, err)
		case d.IsDir() && path != dir && (l.isState(path) || strings.HasPrefix(d.Name(), ".") && d.Name() != ".well-known"):
			return fs.SkipDir
		case d.Type().IsRegular() && lint.Candidate(path):
			return l.file(ctx, path, l.candidate)
		}
		return nil
	})
	if err == nil && l.Checked+l.Failed == before {
		return l.fail(ctx, dir, fmt.Errorf("%q: %w", dir, errNothing))
	}
	return err
}

// candidate checks a file of a directory if it seems to belong to a Source.
func (l *Linter) candidate(ctx context.Context, path string, c content) error {
	head, err := c.head()
	if err != nil {
		return l.fail(ctx, path, err)
	}
	switch isZIP := lint.Recognise(path, head) == lint.FormPackage; {
	case isZIP && !hasManifest(c), !isZIP && !lint.Claims(path, head):
		return nil
	}
	return l.content(ctx, path, c)
}

// hasManifest reports whether a ZIP file is a package of a Source.
func hasManifest(c content) bool {
	p, err := pack.Open(c, c.size, pack.Limits{Tolerant: true})
	if err != nil {
		return false
	}
	_, m, err := p.Manifest()
	if err != nil {
		return !errors.Is(err, pack.ErrNoManifest)
	}
	_ = m.Close() // an error of closing is ignored, since the file was only read
	return true
}

// pipe reads an input that can be read only once to its end, and checks it.
func (l *Linter) pipe(ctx context.Context, name, uri string) error {
	r, err := l.Open(ctx, name)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	f, err := spoolAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	defer f.Close()
	return l.content(ctx, uri, content{f, f.Len()})
}
