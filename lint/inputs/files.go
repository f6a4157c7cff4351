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

func (l *Linter) checkPath(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return l.fail(ctx, path, err)
	case l.isState(path):
		return l.fail(ctx, path, errState)
	case info.IsDir():
		return l.checkDirectory(ctx, path)
	case info.Mode().IsRegular():
		return l.checkFile(ctx, path, l.checkContent)
	}
	return l.checkStream(ctx, path, path)
}

func (l *Linter) isState(path string) bool { return l.IsState != nil && l.IsState(path) }

var (
	errState   = errors.New("the path is in a state directory of instep, which contains no published documents")
	errNothing = errors.New("the directory contains no ResourceSync document, and no file that seems to be meant as one")
)

func (l *Linter) checkFile(ctx context.Context, path string, check func(context.Context, string, content) error) error {
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

// checkDirectory skips state directories, and hidden directories except .well-known.
func (l *Linter) checkDirectory(ctx context.Context, dir string) error {
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
			return l.checkFile(ctx, path, l.checkCandidate)
		}
		return nil
	})
	if err == nil && l.Checked+l.Failed == before {
		return l.fail(ctx, dir, fmt.Errorf("%q: %w", dir, errNothing))
	}
	return err
}

// checkCandidate ignores a file unless it seems to belong to a Source.
func (l *Linter) checkCandidate(ctx context.Context, path string, c content) error {
	head, err := c.firstBytes()
	if err != nil {
		return l.fail(ctx, path, err)
	}
	switch isZIP := lint.Recognise(path, head) == lint.FormPackage; {
	case isZIP && !hasManifest(c), !isZIP && !lint.Claims(path, head):
		return nil
	}
	return l.checkContent(ctx, path, c)
}

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

// checkStream copies the input to a temporary file, because the checks read it several times.
func (l *Linter) checkStream(ctx context.Context, name, uri string) error {
	r, err := l.Open(ctx, name)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	f, err := spoolAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	defer f.Close()
	return l.checkContent(ctx, uri, content{f, f.Len()})
}
