package resourcesync

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// Algorithm is the IANA name of a hash function, as in rs:md/@hash (1.1 §7).
type Algorithm string

// The algorithms that this package knows, weakest first.
const (
	MD5    Algorithm = "md5"
	SHA1   Algorithm = "sha-1"
	SHA224 Algorithm = "sha-224"
	SHA256 Algorithm = "sha-256"
	SHA384 Algorithm = "sha-384"
	SHA512 Algorithm = "sha-512"
)

// algorithms are the known algorithms, weakest first. Digest.alg is an index of this
// array. The index 0 means no algorithm.
var algorithms = [...]struct {
	name Algorithm
	size int
	new  func() hash.Hash
}{
	{},
	{MD5, md5.Size, md5.New},
	{SHA1, sha1.Size, sha1.New},
	{SHA224, sha256.Size224, sha256.New224},
	{SHA256, sha256.Size, sha256.New},
	{SHA384, sha512.Size384, sha512.New384},
	{SHA512, sha512.Size, sha512.New},
}

const firstStrong = 4 // index of sha-256

// ErrUnknownAlgorithm means that this package does not know the algorithm of a hash.
var ErrUnknownAlgorithm = errors.New("unknown hash algorithm")

// Known reports whether this package can parse and compute digests of the algorithm.
func (a Algorithm) Known() bool { return indexOf(string(a)) != 0 }

func indexOf[T string | []byte](name T) uint8 {
	for i := 1; i < len(algorithms); i++ {
		if string(name) == string(algorithms[i].name) {
			return uint8(i)
		}
	}
	return 0
}

// indexOfLoose is like indexOf, but also accepts SHA256, sha_256 and similar spellings.
func indexOfLoose(name string) uint8 {
	name = strings.ToLower(name)
	if i := indexOf(name); i != 0 {
		return i
	}
	bits, ok := strings.CutPrefix(name, "sha")
	if !ok {
		return 0
	}
	return indexOf("sha-" + strings.TrimPrefix(bits, "_"))
}

// Digest is the value of one hash function. Digests can be compared with == and can be
// keys of a map. The zero value means that there is no digest.
type Digest struct {
	alg uint8
	sum [sha512.Size]byte
}

// ParseDigest parses algorithm:value, as in rs:md/@hash (1.1 §7). It ignores the case
// of the algorithm and of the hexadecimal value. It also accepts SHA256 for sha-256,
// and values in base64 or base64url, which some Sources publish. The error wraps
// [ErrUnknownAlgorithm] if the algorithm is unknown.
func ParseDigest(s string) (Digest, error) {
	d, _, bad := parseDigest(strings.Trim(s, xmlSpace))
	if bad != nil {
		return Digest{}, bad
	}
	return d, nil
}

// NewDigest returns a digest of the given algorithm with the given bytes.
func NewDigest(a Algorithm, sum []byte) (Digest, error) {
	d := Digest{alg: indexOf(string(a))}
	if d.alg == 0 {
		return Digest{}, fmt.Errorf("%w %q", ErrUnknownAlgorithm, clip(string(a)))
	}
	if want := algorithms[d.alg].size; len(sum) != want {
		return Digest{}, fmt.Errorf("the %s digest has %d bytes; expected %d", a, len(sum), want)
	}
	copy(d.sum[:], sum)
	return d, nil
}

type badDigest struct {
	value string
	rule  string // id of the broken rule
	why   error
}

func (e *badDigest) Error() string { return fmt.Sprintf("hash %q: %v", clip(e.value), e.why) }
func (e *badDigest) Unwrap() error { return e.why }

// parseDigest is like ParseDigest, but also returns the quirk of a spelling that the
// standard does not allow; 0 for an allowed spelling.
func parseDigest(s string) (Digest, Quirk, *badDigest) {
	name, value, ok := strings.Cut(s, ":")
	if !ok || name == "" {
		return Digest{}, 0, &badDigest{s, "hash-algorithm-token", errors.New("expected algorithm:hexadecimal")}
	}
	var quirk Quirk
	d := Digest{alg: indexOf(name)}
	if d.alg == 0 {
		if d.alg = indexOfLoose(name); d.alg == 0 {
			return Digest{}, 0, &badDigest{s, "hash-algorithm-unknown", fmt.Errorf("%w %q", ErrUnknownAlgorithm, clip(name))}
		}
		quirk = QuirkHashSpelling
	}
	size := algorithms[d.alg].size
	if len(value) == 2*size && decodeHex(d.sum[:size], value) {
		return d, quirk, nil
	}
	if raw, ok := decodeBase64(value, size); ok {
		copy(d.sum[:], raw)
		return d, QuirkHashBase64, nil
	}
	rule := "hash-hex-digest"
	if isHex(value) {
		rule = "hash-digest-length"
	}
	return Digest{}, 0, &badDigest{s, rule, fmt.Errorf("expected %d hexadecimal digits", 2*size)}
}

func decodeHex[T string | []byte](dst []byte, src T) bool {
	src = src[:2*len(dst)]
	var bad byte
	for i := range dst {
		hi, lo := hexValue[src[2*i]], hexValue[src[2*i+1]]
		bad |= hi | lo
		dst[i] = hi<<4 | lo
	}
	return bad <= 15
}

func isHex(s string) bool {
	for i := range len(s) {
		if hexValue[s[i]] > 15 {
			return false
		}
	}
	return true
}

// hexValue has the value of each hexadecimal digit, and 255 for all other bytes.
var hexValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i := range byte(16) {
		t["0123456789abcdef"[i]] = i
		t["0123456789ABCDEF"[i]] = i
	}
	return t
}()

// decodeBase64 decodes size bytes of base64 or base64url, with or without padding.
func decodeBase64(s string, size int) ([]byte, bool) {
	s = strings.TrimRight(s, "=")
	if len(s) != base64.RawStdEncoding.EncodedLen(size) {
		return nil, false
	}
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	raw, err := enc.DecodeString(s)
	return raw, err == nil
}

// Algorithm returns the name of the hash function, or "" if d is absent.
func (d Digest) Algorithm() Algorithm { return algorithms[d.alg].name }

// Sum returns the bytes of the digest, or nil if d is absent.
func (d Digest) Sum() []byte {
	if d.IsZero() {
		return nil
	}
	return append([]byte(nil), d.sum[:algorithms[d.alg].size]...)
}

// IsZero reports whether d is absent.
func (d Digest) IsZero() bool { return d.alg == 0 }

// Strong reports whether d is a sha-256 or stronger. Equal strong digests prove that
// the bytes are equal. Equal weaker digests do not, because somebody may have forged
// bytes with the same digest.
func (d Digest) Strong() bool { return d.alg >= firstStrong }

// String returns algorithm:hexadecimal in lower case, or "" if d is absent.
func (d Digest) String() string { return string(d.appendTo(nil)) }

// MarshalText returns the same text as String.
func (d Digest) MarshalText() ([]byte, error) { return d.appendTo(nil), nil }

// UnmarshalText parses text like [ParseDigest], but accepts the empty text as the zero value.
func (d *Digest) UnmarshalText(text []byte) error { return unmarshalText(d, text, ParseDigest) }

func (d Digest) appendTo(b []byte) []byte {
	if d.IsZero() {
		return b
	}
	a := &algorithms[d.alg]
	b = append(append(b, a.name...), ':')
	return hex.AppendEncode(b, d.sum[:a.size])
}

// Digests are the digests of one representation, in the order of the document.
type Digests []Digest

// ParseDigests parses the list of digests in rs:md/@hash, which are separated by white
// space (1.1 §7). If some digests are unusable, it returns the other digests and an error.
func ParseDigests(s string) (Digests, error) {
	var ds Digests
	var errs []error
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(xmlSpace, r) }) {
		d, err := ParseDigest(f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ds = append(ds, d)
	}
	return ds, errors.Join(errs...)
}

// Get returns the first digest of the given algorithm, or the zero Digest if there is none.
func (ds Digests) Get(a Algorithm) Digest {
	for _, d := range ds {
		if d.Algorithm() == a {
			return d
		}
	}
	return Digest{}
}

// Strongest returns the first digest of the strongest algorithm, or the zero Digest if
// there is none.
func (ds Digests) Strongest() Digest {
	var best Digest
	for _, d := range ds {
		if d.alg > best.alg {
			best = d
		}
	}
	return best
}

// Strong reports whether at least one of the digests is strong; see [Digest.Strong].
func (ds Digests) Strong() bool {
	return slices.ContainsFunc(ds, Digest.Strong)
}

// String returns the digests separated by spaces, as in rs:md/@hash.
func (ds Digests) String() string { return string(ds.appendTo(nil)) }

// MarshalText returns the same text as String.
func (ds Digests) MarshalText() ([]byte, error) { return ds.appendTo(nil), nil }

// UnmarshalText parses text like [ParseDigests], but requires that every digest is usable.
func (ds *Digests) UnmarshalText(text []byte) error { return unmarshalText(ds, text, ParseDigests) }

func (ds Digests) appendTo(b []byte) []byte {
	start := len(b)
	for _, d := range ds {
		if d.IsZero() {
			continue
		}
		if len(b) > start {
			b = append(b, ' ')
		}
		b = d.appendTo(b)
	}
	return b
}

// Hasher computes several digests in one pass. Its Write never fails.
type Hasher struct {
	algs []uint8
	sums []hash.Hash
}

// NewHasher returns a Hasher for the given algorithms. It panics if an algorithm is not
// among the constants of this package; see [Algorithm.Known].
func NewHasher(algs ...Algorithm) *Hasher {
	h := &Hasher{}
	for _, a := range algs {
		i := indexOf(string(a))
		if i == 0 {
			panic(fmt.Sprintf("resourcesync: NewHasher: unknown hash algorithm %q", string(a)))
		}
		h.algs = append(h.algs, i)
		h.sums = append(h.sums, algorithms[i].new())
	}
	return h
}

// Write hashes p.
func (h *Hasher) Write(p []byte) (int, error) {
	for _, s := range h.sums {
		s.Write(p) // no error: a write to a hash.Hash never fails
	}
	return len(p), nil
}

// Digests returns the digests of the bytes written so far, in the order of the algorithms
// given to NewHasher.
func (h *Hasher) Digests() Digests {
	ds := make(Digests, len(h.algs))
	for i, s := range h.sums {
		ds[i].alg = h.algs[i]
		s.Sum(ds[i].sum[:0])
	}
	return ds
}
