package pack

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/resourcesync"
)

// Member is a bitstream to be packed: its manifest entry and its bytes.
type Member struct {
	// Path is the path in the package (see [PathOf]). It is empty for a deletion, which
	// has an entry in the manifest but no bytes. The bytes from Open are checked
	// against Length and Digests, as far as these are known.
	resourcesync.Entry
	Open func(context.Context) (io.ReadCloser, error) // may be called concurrently for different members
}

// MemberError reports a member that could not be opened or read, or whose bytes differ from
// its entry (then it wraps a [*resourcesync.MismatchError]).
type MemberError struct {
	URI string
	Err error
}

func (e *MemberError) Error() string { return fmt.Sprintf("packing %q: %v", e.URI, e.Err) }
func (e *MemberError) Unwrap() error { return e.Err }

// open opens the bytes of a member, which are verified while they are read.
func (m *Member) open(ctx context.Context) (io.ReadCloser, error) {
	if m.Open == nil {
		return nil, &MemberError{m.Loc, errors.New("it has a path and no bytes")}
	}
	r, err := m.Open(ctx)
	if err != nil {
		return nil, m.failed(err)
	}
	return struct {
		io.Reader
		io.Closer
	}{resourcesync.NewVerifyReader(r, m.Length.Int64(), m.Digests), r}, nil
}

func (m *Member) failed(err error) error { return &MemberError{m.Loc, err} }
