package catalog

import (
	"database/sql"
	"fmt"
	"time"

	"instep/resourcesync"
)

// converted is a destination for Scan that converts the value of a column from C to V.
// NULL becomes the zero value.
type converted[C, V any] struct {
	to      *V
	convert func(C) (V, error)
}

func (c converted[C, V]) Scan(src any) error {
	var from sql.Null[C]
	err := from.Scan(src)
	if err != nil || !from.Valid {
		var zero V
		*c.to = zero
		return err
	}
	if *c.to, err = c.convert(from.V); err != nil {
		err = fmt.Errorf("%w: %w; %s", ErrDamaged, err, hint)
	}
	return err
}

// A function whose name ends in To returns the destination of a column for Scan. A
// function whose name begins with write returns a query parameter.

func textTo[S ~string](s *S) sql.Scanner {
	return converted[string, S]{s, func(c string) (S, error) { return S(c), nil }}
}

// keyTo reads a column with a URI, and stores the key of that URI.
func keyTo(k *resourcesync.Key) sql.Scanner {
	return converted[string, resourcesync.Key]{k, func(uri string) (resourcesync.Key, error) { return resourcesync.KeyOf(uri), nil }}
}

func writeText(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func readTime(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func readMicros(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return readTime(micros)
}

// timeTo reads a column with a time in microseconds since 1970.
func timeTo(t *time.Time) sql.Scanner {
	return converted[int64, time.Time]{t, func(c int64) (time.Time, error) { return readTime(c), nil }}
}

// microsTo reads a column with a time in microseconds since 1970, in which 0 means the
// zero time.
func microsTo(t *time.Time) sql.Scanner {
	return converted[int64, time.Time]{t, func(c int64) (time.Time, error) { return readMicros(c), nil }}
}

// writeMicros returns microseconds since 1970, and 0 for the zero time.
func writeMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func lengthTo(l *resourcesync.Length) sql.Scanner {
	return converted[int64, resourcesync.Length]{l, func(c int64) (resourcesync.Length, error) { return resourcesync.Bytes(c), nil }}
}

func writeLength(l resourcesync.Length) sql.NullInt64 {
	return sql.NullInt64{Int64: l.Int64(), Valid: l.Known()}
}

// digestTo reads a column with a SHA-256.
func digestTo(d *resourcesync.Digest) sql.Scanner {
	return converted[[]byte, resourcesync.Digest]{d, func(sum []byte) (resourcesync.Digest, error) {
		return resourcesync.NewDigest(resourcesync.SHA256, sum)
	}}
}

// digestsTo reads the column that digestsColumn selects. The parameter uri is only used
// in errors.
func digestsTo(uri *string, ds *resourcesync.Digests) sql.Scanner {
	return converted[string, resourcesync.Digests]{ds, func(c string) (resourcesync.Digests, error) {
		if c == "" {
			return nil, nil
		}
		ds, err := resourcesync.ParseDigests(c)
		if err != nil {
			err = fmt.Errorf("digests of %q: %w", *uri, err)
		}
		return ds, err
	}}
}

// digestsColumn selects all digests of the bytes. The column "digests" is empty if the
// only digest is the one in the column "sha256".
const digestsColumn = "CASE WHEN digests <> '' OR sha256 IS NULL THEN digests ELSE 'sha-256:' || lower(hex(sha256)) END"

func writeDigests(ds resourcesync.Digests) (others string, sha256 []byte) {
	if len(ds) != 1 || ds[0].Algorithm() != resourcesync.SHA256 {
		others = ds.String()
	}
	return others, ds.Get(resourcesync.SHA256).Sum()
}

func datetimeTo(uri *string, d *resourcesync.Datetime) sql.Scanner {
	return converted[string, resourcesync.Datetime]{d, func(c string) (d resourcesync.Datetime, err error) {
		if err = d.UnmarshalText([]byte(c)); err != nil {
			err = fmt.Errorf("lastmod of %q: %w", *uri, err)
		}
		return d, err
	}}
}

// checksumOf reads a column with the CRC-32C of a URI, and returns an error if the URI
// has another checksum. The column with the URI must come before this column in the
// row.
func checksumOf(uri *string) sql.Scanner {
	return converted[int64, bool]{new(bool), func(crc int64) (bool, error) {
		if crc != int64(crcOf(*uri)) {
			return false, fmt.Errorf("a row has the URI %q, which does not have the recorded checksum", *uri)
		}
		return true, nil
	}}
}
