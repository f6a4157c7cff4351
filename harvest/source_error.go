package harvest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/fetch"
	"instep/resourcesync"
)

// DocumentError says that a document of the Source cannot be used, and why. Nothing
// was done on its word.
type DocumentError struct {
	URI    string
	Reason string             // continues "URI …"
	Err    error              // from the decoder; may be nil
	Quirk  resourcesync.Quirk // the habit of Sources that it comes from; 0: none
}

func (e *DocumentError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: %v", e.URI, e.Reason, e.Err)
	}
	return e.URI + " " + e.Reason
}

func (e *DocumentError) Unwrap() error { return e.Err }

// OfSource reports whether err is about the documents of the Source: it concerns one
// set, not the mirror or the run.
func OfSource(err error) bool {
	var de *DocumentError
	return IsSourceError(err) || errors.As(err, &de)
}

// SourceError is an error of the Source's side: the resource fails, the run goes on.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// IsSourceError reports whether err is, or wraps, a SourceError.
func IsSourceError(err error) bool {
	var re *SourceError
	return errors.As(err, &re)
}

// SourceReader tells errors of reading from the Source from those of writing what is read.
type SourceReader struct {
	URI  string
	Body io.Reader
}

func (r SourceReader) Read(p []byte) (int, error) {
	n, err := r.Body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &SourceError{fmt.Errorf("%s: %w", r.URI, err)}
	}
	return n, err
}

// lost reports whether err means that a document of the Source is not there or of no
// use, now and later.
func lost(ctx context.Context, err error) bool {
	return ctx.Err() == nil && OfSource(err) && !errors.Is(err, fetch.Temporary)
}

// unlessLost drops an error that means no more than that a document is of no use.
func unlessLost(ctx context.Context, err error) error {
	if lost(ctx, err) {
		return nil
	}
	return err
}

// UnlessOfSource drops an error that is about the documents of the Source alone.
func UnlessOfSource(ctx context.Context, err error) error {
	if OfSource(err) && ctx.Err() == nil {
		return nil
	}
	return err
}
