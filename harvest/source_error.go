package harvest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/fetch"
	"instep/resourcesync"
)

// DocumentError means that a document of the Source cannot be used. Nothing was changed
// because of that document.
type DocumentError struct {
	URI    string
	Reason string             // rest of a sentence that begins with the URI
	Err    error              // error of the decoder; may be nil
	Quirk  resourcesync.Quirk // the quirk that caused the error; 0 if none did
	other  bool               // the document has another capability than the one that was promised
}

func (e *DocumentError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: %v", e.URI, e.Reason, e.Err)
	}
	return e.URI + " " + e.Reason
}

func (e *DocumentError) Unwrap() error { return e.Err }

// OfSource reports whether err is about the Source's documents. Such an error concerns
// one set, not the mirror or the whole run.
func OfSource(err error) bool {
	var de *DocumentError
	var ue *UncoveredError
	return IsSourceError(err) || errors.As(err, &de) || errors.As(err, &ue)
}

// SourceError is an error of the Source: a resource fails, and the run continues.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// IsSourceError reports whether err is, or wraps, a SourceError.
func IsSourceError(err error) bool {
	var re *SourceError
	return errors.As(err, &re)
}

// SourceReader marks errors of reading from the Source as SourceErrors, so that a
// caller can tell them from errors of writing.
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

// meansUnusable reports whether the error makes a document unusable. A temporary error
// does not, because a later run may read the document.
func meansUnusable(ctx context.Context, err error) bool {
	return ctx.Err() == nil && OfSource(err) && !errors.Is(err, fetch.Temporary)
}

func unlessUnusable(ctx context.Context, err error) error {
	if meansUnusable(ctx, err) {
		return nil
	}
	return err
}

// UnlessOfSource returns err, or nil if err is only about the Source's documents.
func UnlessOfSource(ctx context.Context, err error) error {
	if OfSource(err) && ctx.Err() == nil {
		return nil
	}
	return err
}
