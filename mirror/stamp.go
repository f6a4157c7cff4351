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

// fileStamp is a parsed stamp. A stamp is text that the catalog stores for the file of
// a resource in the column stat, to find out later whether somebody has changed the
// file. It has up to three words: the time at which the bytes were stored, in
// microseconds since 1970; the algorithm of the strongest digest that the Source gave,
// if any; and @ with the modification time that the mirror has set, if any, in seconds
// since 1970. A file counts as changed if it does not have the modification time that
// the mirror has set. If the mirror has set none, a file counts as changed if it was
// modified after the bytes were stored.
type fileStamp struct {
	stored  time.Time
	proof   resourcesync.Algorithm
	modTime time.Time // the modification time that the mirror has set; zero if it has set none
}

// timeSlack is the largest error with which file systems store modification times: FAT
// stores multiples of two seconds.
const timeSlack = 2 * time.Second

// modTime returns the modification time to set on the file of a resource, in whole
// seconds: the time that the Source states, so that a web server for the directory
// sends the same Last-Modified. It returns the present time instead of a time in the
// future, and the zero time instead of a time before 1970, which some file systems
// cannot store.
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

// stamp returns the stamp of a file with these bytes, without the time of storing,
// which addStoringTime adds. For a file that did not belong to the mirror the stamp has
// no modification time, since the mirror may not be allowed to set it.
func (c *content) stamp() string {
	if c.modTime.IsZero() || c.found {
		return c.proof
	}
	return strings.TrimSpace(c.proof + " @" + strconv.FormatInt(c.modTime.Unix(), 10))
}

// addStoringTime adds the present time to the stamps of resources that were just
// stored.
func addStoringTime(stored []catalog.Resource, now time.Time) {
	for i := range stored {
		stored[i].Stat = strings.TrimSpace(strconv.FormatInt(now.UnixMicro(), 10) + " " + stored[i].Stat)
	}
}

// readStamp returns false for an empty or invalid stamp.
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

// matches reports whether a file with this stamp and the modification time modTime is
// unchanged.
func (s *fileStamp) matches(modTime time.Time) bool {
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

// Untouched implements destination.Mirror. If somebody changes a file and then restores
// its modification time, Untouched does not notice the change.
func (m *Mirror) Untouched(ctx context.Context, h *destination.Held) (bool, error) {
	info, err := m.bucket.Stat(ctx, h.Path)
	if err != nil {
		return false, fmt.Errorf("bytes of %q: %w", h.URI, err)
	}
	return untouched(info, h.Length, h.Stamp), nil
}

func untouched(info blob.Info, length resourcesync.Length, stamp string) bool {
	s, ok := readStamp(stamp)
	return ok && length.Known() && info.Size == length.Int64() && s.matches(info.ModTime)
}
