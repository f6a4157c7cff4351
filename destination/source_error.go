package destination

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/fetch"
)

// DocumentError says that a document of the Source cannot be used, and why. Nothing
// was done on its word.
type DocumentError struct {
	URI    string
	Reason string // continues "URI …"
	Err    error  // from the decoder; may be nil
}

func (e *DocumentError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s %s: %v", e.URI, e.Reason, e.Err)
	}
	return e.URI + " " + e.Reason
}

func (e *DocumentError) Unwrap() error { return e.Err }

// ofSource reports whether err is about the documents of the Source: it concerns one
// set, not the mirror or the run.
func ofSource(err error) bool {
	var de *DocumentError
	return isRemote(err) || errors.As(err, &de)
}

// remoteError is an error of the Source's side: the resource fails, the run goes on.
type remoteError struct{ err error }

func (e *remoteError) Error() string { return e.err.Error() }
func (e *remoteError) Unwrap() error { return e.err }

func isRemote(err error) bool {
	var re *remoteError
	return errors.As(err, &re)
}

// remoteReader tells errors of reading from the Source from those of writing to the mirror.
type remoteReader struct {
	uri string
	r   io.Reader
}

func (r remoteReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &remoteError{fmt.Errorf("%s: %w", r.uri, err)}
	}
	return n, err
}

// lost reports whether err means that a document of the Source is not there or of no
// use, now and later.
func lost(ctx context.Context, err error) bool {
	return ctx.Err() == nil && ofSource(err) && !errors.Is(err, fetch.Temporary)
}

// unlessLost drops an error that means no more than that a document is of no use.
func unlessLost(ctx context.Context, err error) error {
	if lost(ctx, err) {
		return nil
	}
	return err
}

// unlessSource drops an error that is about the documents of the Source alone.
func unlessSource(ctx context.Context, err error) error {
	if ofSource(err) && ctx.Err() == nil {
		return nil
	}
	return err
}
