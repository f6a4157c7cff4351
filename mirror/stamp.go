package mirror

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// A stamp, in the catalog's column stat, is what is known of the file of a resource: words
// with spaces between them. The first is the moment at which its bytes were stored, in
// microseconds since 1970, and the others may lack: the algorithm of the strongest digest
// that the Source had given of them, and after an @ the time of modification that the file
// was given, in seconds since 1970. A file that somebody has written to since then has
// another time; one that was given none has a later one than that at which it was stored.
type fileStamp struct {
	stored  time.Time
	proof   resourcesync.Algorithm
	modTime time.Time // zero: none
}

// timeSlack is the rounding of modification times by file systems: FAT has steps of two
// seconds.
const timeSlack = 2 * time.Second

// modTime returns the modification time for the file of w: that of the Source, so that a
// web server over the mirror sends its Last-Modified, in whole seconds. A time in the
// future becomes now. A time before 1970, which not every file system supports, counts as
// none.
func modTime(w *harvest.Resource, now time.Time) time.Time {
	t := w.Modified
	if t.IsZero() && !w.LastMod.IsZero() {
		t = w.LastMod.Time()
	}
	switch {
	case t.Unix() < 0:
		return time.Time{}
	case t.After(now):
		t = now
	}
	return t.Truncate(time.Second)
}

// stamp returns the stamp of the future file of c, without the moment. It has no time for a
// file that was found: the time of another user's file cannot be set.
func (c *content) stamp() string {
	if c.modTime.IsZero() || c.found {
		return c.proof
	}
	return strings.TrimSpace(c.proof + " @" + strconv.FormatInt(c.modTime.Unix(), 10))
}

// stamp completes the stamps of resources that are about to be stored.
func stamp(stored []catalog.Resource, now time.Time) {
	for i := range stored {
		stored[i].Stat = strings.TrimSpace(strconv.FormatInt(now.UnixMicro(), 10) + " " + stored[i].Stat)
	}
}

// readStamp parses a stamp; false if there is none, or it is invalid.
func readStamp(text string) (s fileStamp, ok bool) {
	micros, rest, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return s, false
	}
	s.stored = time.UnixMicro(n)
	for word := range strings.FieldsSeq(rest) {
		seconds, isTime := strings.CutPrefix(word, "@")
		if !isTime {
			s.proof = resourcesync.Algorithm(word)
		} else if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
			s.modTime = time.Unix(n, 0)
		}
	}
	return s, true
}

// fits reports whether a file with that modification time is the one that was stored.
func (s *fileStamp) fits(modTime time.Time) bool {
	if s.modTime.IsZero() {
		return modTime.UnixMicro() <= s.stored.UnixMicro()
	}
	off := s.modTime.Sub(modTime)
	return 0 <= off && off < timeSlack
}

// proofOf is the strongest algorithm of the digests that a Source gives; "" if there
// is none.
func proofOf(ds resourcesync.Digests) string {
	if d := ds.Strongest(); !d.IsZero() {
		return string(d.Algorithm())
	}
	return ""
}

// Untouched implements destination.Mirror. A file that was written to and whose time of
// modification was put back by hand is taken for untouched.
func (m *Mirror) Untouched(ctx context.Context, h *destination.Held) (bool, error) {
	info, err := m.bucket.Stat(ctx, h.Path)
	if err != nil {
		return false, fmt.Errorf("bytes of %q: %w", h.URI, err)
	}
	return untouched(info, h.Length, h.Stamp), nil
}

func untouched(info blob.Info, length resourcesync.Length, stamp string) bool {
	s, ok := readStamp(stamp)
	return ok && length.Known() && info.Size == length.Int64() && s.fits(info.ModTime)
}
