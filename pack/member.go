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
	// Entry is the entry in the manifest. Its Path is the path in the package (see
	// [PathOf]); a deletion has no path and no bytes. If its Length and Digests are known,
	// the bytes from Open must match them.
	resourcesync.Entry
	Open func(context.Context) (io.ReadCloser, error) // opens the bytes of the member; several members may be opened concurrently
}

// MemberError reports a member that could not be opened or read, or whose bytes differ from
// its entry. If the bytes differ, it wraps a [*resourcesync.MismatchError].
type MemberError struct {
	URI string
	Err error
}

func (e *MemberError) Error() string { return fmt.Sprintf("packing %q: %v", e.URI, e.Err) }
func (e *MemberError) Unwrap() error { return e.Err }

// open returns a reader that verifies the bytes of the member.
func (m *Member) open(ctx context.Context) (io.ReadCloser, error) {
	if m.Open == nil {
		return nil, &MemberError{m.Loc, errors.New("the member has a path but no bytes")}
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
