package resourcesync

import (
	"io"
	"iter"
	"time"
)

// Datetime is a W3C Datetime with the precision it was written in.
type Datetime struct {
	sec  int64
	nsec int32
	prec uint8
	off  int16
}

func ParseDatetime(s string) (Datetime, error) { panic("pending") }
func DatetimeOf(t time.Time) Datetime          { panic("pending") } // UTC, microseconds (trailing zeros dropped)
func (d Datetime) IsZero() bool                { panic("pending") }
func (d Datetime) Time() time.Time             { panic("pending") } // first instant of the interval, UTC; zero Time for the zero Datetime
func (d Datetime) End() time.Time              { panic("pending") } // first instant after the interval
func (d Datetime) String() string              { panic("pending") }
func (d Datetime) Before(o Datetime) bool      { panic("pending") } // every instant of d is before every instant of o
func (d Datetime) After(o Datetime) bool       { panic("pending") }

// Digest is one hash value: comparable, usable as a map key.
type Digest struct {
	alg uint8
	sum [64]byte
}

type Algorithm string // "md5" "sha-1" "sha-224" "sha-256" "sha-384" "sha-512"

const SHA256 Algorithm = "sha-256"

func ParseDigest(s string) (Digest, error)                    { panic("pending") }
func NewDigest(a Algorithm, sum []byte) (Digest, error)       { panic("pending") }
func (d Digest) Algorithm() Algorithm                         { panic("pending") }
func (d Digest) Sum() []byte                                  { panic("pending") }
func (d Digest) IsZero() bool                                 { panic("pending") }
func (d Digest) String() string                               { panic("pending") } // "sha-256:hex"
func (d Digest) Strong() bool                                 { panic("pending") } // sha-256 or better

type Digests []Digest

func ParseDigests(s string) (Digests, error)                  { panic("pending") } // known ones returned even if err names unusable ones
func (ds Digests) Get(a Algorithm) Digest                     { panic("pending") }
func (ds Digests) Strongest() Digest                          { panic("pending") }
func (ds Digests) String() string                             { panic("pending") }

// Hasher computes several digests in one pass.
type Hasher struct{}

func NewHasher(algs ...Algorithm) *Hasher                     { panic("pending") }
func (h *Hasher) Write(p []byte) (int, error)                 { panic("pending") }
func (h *Hasher) Digests() Digests                            { panic("pending") }

type Decoder struct{}

func NewDecoder(r io.Reader, opts ...Option) *Decoder         { panic("pending") }
func (d *Decoder) Header() (Header, error)                    { panic("pending") } // before the first entry; after Entries has ended: as known at the end
func (d *Decoder) Entries() iter.Seq2[Entry, error]           { panic("pending") }

type Option func(*Decoder)

type Encoder struct{}

// ErrFull: the entry would take the document over 50,000 entries or 50,000,000 bytes; nothing was written.
var ErrFull error

func NewEncoder(w io.Writer, h Header) (*Encoder, error)      { panic("pending") }
func (e *Encoder) Encode(en Entry) error                      { panic("pending") }
func (e *Encoder) Close() error                               { panic("pending") }
func (e *Encoder) Count() int                                 { panic("pending") }
func (e *Encoder) Bytes() int64                               { panic("pending") }

// NewVerifyReader reads r and fails before io.EOF with *MismatchError unless length (if >= 0) and every digest hold.
func NewVerifyReader(r io.Reader, length int64, ds Digests) io.Reader { panic("pending") }
