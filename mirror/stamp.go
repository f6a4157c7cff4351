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

// fileStamp is a parsed stamp. A stamp is stored in the column stat of the catalog, and
// shows later whether somebody has changed the file of a resource. It has up to three
// words, separated by spaces: the time at which the bytes were stored, in microseconds
// since 1970; the algorithm of the strongest digest that the Source gave, if any; and @
// with the modification time that the file was given, in seconds since 1970, if any. A
// file is changed if its modification time is another one or, without such a time, is
// later than the time of storing.
type fileStamp struct {
	stored  time.Time
	proof   resourcesync.Algorithm
	modTime time.Time // zero if the file was given no modification time
}

// timeSlack is the largest step between modification times that a file system can store:
// FAT has steps of two seconds.
const timeSlack = 2 * time.Second

// modTime returns the modification time for the file of w, in whole seconds. It is that
// of the Source, so that a web server for the directory sends the same Last-Modified.
// Instead of a time in the future modTime returns now, and instead of a time before 1970,
// which not every file system can store, the zero time.
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

// stamp returns the stamp for the file of c, without the time of storing. An adopted file
// has no modification time in its stamp, since the mirror cannot set the time of another
// user's file.
func (c *content) stamp() string {
	if c.modTime.IsZero() || c.found {
		return c.proof
	}
	return strings.TrimSpace(c.proof + " @" + strconv.FormatInt(c.modTime.Unix(), 10))
}

// stamp adds the time of storing to the stamps of these resources.
func stamp(stored []catalog.Resource, now time.Time) {
	for i := range stored {
		stored[i].Stat = strings.TrimSpace(strconv.FormatInt(now.UnixMicro(), 10) + " " + stored[i].Stat)
	}
}

// readStamp parses a stamp. It returns false for an empty or invalid one.
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

// fits reports whether the file of s has not been changed since it was stored, judged by
// its present modification time.
func (s *fileStamp) fits(modTime time.Time) bool {
	if s.modTime.IsZero() {
		return modTime.UnixMicro() <= s.stored.UnixMicro()
	}
	off := s.modTime.Sub(modTime)
	return 0 <= off && off < timeSlack
}

// proofOf returns the algorithm of the strongest digest; "" if there is no digest.
func proofOf(ds resourcesync.Digests) string {
	if d := ds.Strongest(); !d.IsZero() {
		return string(d.Algorithm())
	}
	return ""
}

// Untouched implements destination.Mirror. It does not notice a change after which
// somebody has restored the file's modification time.
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
