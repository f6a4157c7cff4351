package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Write stores the bytes of r as one object, in a separate batch and with the options p. It
// returns the number of bytes. If reading fails, Write stores nothing.
func Write(ctx context.Context, b Bucket, r io.Reader, p Put) (n int64, err error) {
	batch, err := b.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, batch.Discard()) }()
	o, err := batch.Create(ctx)
	if err != nil {
		return 0, err
	}
	if n, err = io.Copy(o, r); err != nil {
		return n, errors.Join(fmt.Errorf("write %q: %w", p.Key, err), o.Discard())
	}
	if err := o.Close(); err != nil {
		return n, fmt.Errorf("write %q: %w", p.Key, err)
	}
	batch.Put(o, p)
	return n, batch.Commit(ctx)
}

// ErrTooLarge means that an object exceeds the limit of ReadAll.
var ErrTooLarge = errors.New("the object is too large")

// ReadAll returns the bytes of the object at key, or ErrTooLarge if there are more than limit
// bytes.
func ReadAll(ctx context.Context, b Bucket, key string, limit int64) (data []byte, err error) {
	r, info, err := b.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if info.Size > limit {
		return nil, fmt.Errorf("read %q: %w: it has %d bytes, expected at most %d", key, ErrTooLarge, info.Size, limit)
	}
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %q: %w: it has more than the expected %d bytes", key, ErrTooLarge, limit)
	}
	return data, nil
}
