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

// fileStamp is a parsed stamp, which the column stat of the catalog stores for the file
// of a resource. A stamp has up to three words, separated by spaces: the time at which
// the bytes were stored, in microseconds since 1970; the algorithm of the strongest
// digest that the Source gave, if any; and, after an @, the modification time that the
// file was given, if any, in seconds since 1970. If the modification time of the file
// differs from that one, or without it is later than the time of storing, somebody has
// written to the file.
type fileStamp struct {
	stored  time.Time
	proof   resourcesync.Algorithm
	modTime time.Time // zero if the file was given none
}

// timeSlack is the precision of modification times in file systems: FAT has steps of
// two seconds.
const timeSlack = 2 * time.Second

// modTime returns the modification time for the file of w in whole seconds: that of the
// Source, so that a web server for the directory sends the same Last-Modified. For a
// time in the future it returns now. It returns the zero time for a time before 1970,
// which not every file system supports.
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

// stamp returns the stamp for the file of c, without the time of storing. For an
// adopted file it has no modification time, since that of another user's file cannot be
// set.
func (c *content) stamp() string {
	if c.modTime.IsZero() || c.found {
		return c.proof
	}
	return strings.TrimSpace(c.proof + " @" + strconv.FormatInt(c.modTime.Unix(), 10))
}

// stamp adds the time of storing to the stamps of resources that are about to be
// stored.
func stamp(stored []catalog.Resource, now time.Time) {
	for i := range stored {
		stored[i].Stat = strings.TrimSpace(strconv.FormatInt(now.UnixMicro(), 10) + " " + stored[i].Stat)
	}
}

// readStamp parses a stamp; it returns false for an empty or invalid one.
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

// fits reports whether a file with this modification time is unchanged since it was
// stored.
func (s *fileStamp) fits(modTime time.Time) bool {
	if s.modTime.IsZero() {
		return modTime.UnixMicro() <= s.stored.UnixMicro()
	}
	off := s.modTime.Sub(modTime)
	return 0 <= off && off < timeSlack
}

// proofOf returns the algorithm of the strongest digest; "" if there is none.
func proofOf(ds resourcesync.Digests) string {
	if d := ds.Strongest(); !d.IsZero() {
		return string(d.Algorithm())
	}
	return ""
}

// Untouched implements destination.Mirror. It does not detect a change of a file whose
// modification time was set back.
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
