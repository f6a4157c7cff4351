package patch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// dczMagic begins a patch: a skippable frame (RFC 8878 §3.1.2) of 32 bytes, which are the
// SHA-256 of the dictionary (RFC 9842 §5).
var dczMagic = []byte{0x5e, 0x2a, 0x4d, 0x18, 0x20, 0x00, 0x00, 0x00}

const dczHeader = 8 + sha256.Size

// maxZstdWindow is the largest window size that the decoder accepts. It is enough for the
// old and the new version together.
const maxZstdWindow = 2 * MaxBytes

// makeZstd uses the best level of the encoder, because the other levels do not search all of
// a large dictionary: if 6 bytes were inserted at the start of 16 MB of random bytes, the
// patch of another level has 11 MB.
func makeZstd(before, after []byte) ([]byte, error) {
	size := zstd.MinWindowSize
	for size < len(before)+len(after) {
		size *= 2
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, before), zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(size), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	made := append(bytes.Clone(dczMagic), sum(before)...)
	return enc.EncodeAll(after, made), enc.Close()
}

func applyZstd(ctx context.Context, before, patch []byte, limit int64) ([]byte, error) {
	if len(patch) < dczHeader || !bytes.HasPrefix(patch, dczMagic) {
		return nil, errors.New("expected a patch in dcz framing (RFC 9842), which begins with the SHA-256 of the old version")
	}
	if !bytes.Equal(sum(before), patch[len(dczMagic):dczHeader]) {
		return nil, ErrBase
	}
	dec, err := zstd.NewReader(bytes.NewReader(patch[dczHeader:]), zstd.WithDecoderDictRaw(0, before),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecoderMaxMemory(4*MaxBytes))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	var after bytes.Buffer
	n, err := io.Copy(&after, &contextReader{ctx, io.LimitReader(dec, limit+1)})
	if err != nil {
		return nil, fmt.Errorf("decompressing the patch: %w", err)
	}
	if n > limit {
		return nil, tooLong(limit)
	}
	return after.Bytes(), nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (u *contextReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

func sum(version []byte) []byte {
	s := sha256.Sum256(version)
	return s[:]
}
