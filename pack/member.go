package pack

import (
	"context"
	"errors"
	"fmt"
	"io"

	"instep/resourcesync"
)

// Member is a bitstream on its way into a package: the entry that the manifest has
// for it, and its bytes.
type Member struct {
	// Path says where it goes (see [PathOf]); empty for a deletion, which a manifest
	// lists and a package does not hold. What Open yields is checked against Length and
	// Digests, as far as they are known.
	resourcesync.Entry
	Open func(context.Context) (io.ReadCloser, error) // may be called by several goroutines at once, for different members
}

// MemberError says which member of a package could not be had, or is not what its
// entry says (then it wraps a [*resourcesync.MismatchError]).
type MemberError struct {
	URI string
	Err error
}

func (e *MemberError) Error() string { return fmt.Sprintf("packing %q: %v", e.URI, e.Err) }
func (e *MemberError) Unwrap() error { return e.Err }

// open opens the bytes of a member; what is read of them is verified.
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
