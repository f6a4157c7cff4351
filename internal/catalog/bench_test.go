package catalog

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"instep/resourcesync"
)

const benchRows = 20_000

// rowsOf makes creations like those of a first scan.
func rowsOf(b *testing.B, n int) []Change {
	b.Helper()
	changes := make([]Change, n)
	for i := range changes {
		path := fmt.Sprintf("d%02d/e%02d/file%05d.txt", i%20, i/20%20, i)
		changes[i] = change(b, resourcesync.Created, path, path)
		changes[i].Encoding, changes[i].Stat = "", "12345 1763700000123456789 1763700000123456789 12345678"
	}
	return changes
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
}

// BenchmarkEnroll records 20,000 members of a set that was never published.
func BenchmarkEnroll(b *testing.B) {
	changes := rowsOf(b, benchRows)
	for b.Loop() {
		c := open(b)
		s := set(b, c, "")
		for i := 0; i < benchRows; i += 4000 {
			if err := c.Facts.Enroll(b.Context(), s, changes[i:i+4000]); err != nil {
				b.Fatal(err)
			}
		}
	}
	perRow(b)
}

// BenchmarkMembers lists 20,000 members.
func BenchmarkMembers(b *testing.B) {
	c := open(b)
	s := set(b, c, "")
	if err := c.Facts.Enroll(b.Context(), s, rowsOf(b, benchRows)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := 0
		for _, err := range c.Facts.Members(b.Context(), s) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != benchRows {
			b.Fatalf("%d members, want %d", n, benchRows)
		}
	}
	perRow(b)
}

// BenchmarkDayOfALargeSet records 1,600 changes in a set of 200,000 members, or with
// INSTEP_LONG of 2,600,000, and reads what a publication of them needs. Nothing that
// it does goes through the set; nor does its memory, the peak of which it reports,
// grow with it.
func BenchmarkDayOfALargeSet(b *testing.B) {
	members := 200_000
	if os.Getenv("INSTEP_LONG") != "" {
		members = 2_600_000
	}
	c := open(b)
	s := set(b, c, "")
	large(b, c, s, members)
	day := 0
	for b.Loop() {
		day++
		var changes []Change
		for i := range 1600 {
			changes = append(changes, Change{Change: resourcesync.Updated, Resource: nth((i*7919+day)%members, day)})
		}
		after, _, err := c.Facts.LastSeq(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		for batch := range slices.Chunk(changes, MaxChanges) {
			if err := c.Facts.Record(b.Context(), s, batch); err != nil {
				b.Fatal(err)
			}
		}
		read(b, c, s, after, len(changes))
	}
	if n, _, err := c.Facts.Count(b.Context(), s); n != int64(members) || err != nil {
		b.Errorf("Count = %d, %v; want %d", n, err, members)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1600, "µs/change")
	b.ReportMetric(peak(b), "MB-peak")
}

// shapes are what the URIs of a large set look like, in the order in which they arrive.
var shapes = []struct {
	name string
	path func(i, n int) string
}{
	{"1000-to-a-directory", func(i, _ int) string { return fmt.Sprintf("pdf/%04d/%07d.pdf", i/1000, i) }},
	{"one-directory", func(i, _ int) string { return fmt.Sprintf("pdf/%07d.pdf", i) }},
	{"one-directory-of-random-names", func(i, _ int) string { return fmt.Sprintf("pdf/%016x.pdf", scatter(i)) }},
	{"a-directory-for-each", func(i, _ int) string { return fmt.Sprintf("bitstream/%016x/full.pdf", scatter(i)) }},
	{"a-url-in-the-query", func(i, _ int) string { return fmt.Sprintf("get?url=http://%07d.example.org/", i) }},
	{"at-random", func(i, n int) string { i = i * 2654435761 % n; return fmt.Sprintf("pdf/%04d/%07d.pdf", i/1000, i) }},
}

// scatter is a number that looks like a hash of i, and another one for each i.
func scatter(i int) uint64 { return uint64(i) * 0x9E3779B97F4A7C15 }

// BenchmarkBaselineOfALargeSet brings a mirror 200,000 resources, or as many as
// INSTEP_RESOURCES says, in batches of 500, and then the index of contents. It reports the
// bytes that it gives to the disk for each of them, some of which the disk gets more than
// once, the size of the file for each, how fast members are listed by key, how long it takes
// to ask what an idle run and a plan of 1,600 changes ask, and the peak of the memory of the
// process.
func BenchmarkBaselineOfALargeSet(b *testing.B) {
	const batch = 500
	resources := resources()
	for _, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			var written, size int64
			var read, idle, plan time.Duration
			for b.Loop() {
				c := open(b)
				s := set(b, c, "")
				before := ofProcess(b, "io", "wchar:")
				for i := 0; i < resources; i += batch {
					arrive(b, c, s, i, batch, func(i int) string { return shape.path(i, resources) })
				}
				if err := c.indexContents(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				begun, n := time.Now(), 0
				for _, err := range c.Facts.MembersByKey(b.Context(), s) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
				if read += time.Since(begun); n == 0 {
					b.Fatal("no members")
				}
				idle = fastest(b, func() error { return askIdle(b, c, s) })
				changed := make([]string, 1600)
				plan = fastest(b, func() error { return askOf(b, c, s, changed) }, func(time int) {
					for i := range changed {
						changed[i] = "https://example.org/" + shape.path((i*7919*resources/1600+time)%resources, resources)
					}
				})
				path := c.path
				if err := c.Close(); err != nil {
					b.Fatal(err)
				}
				written += ofProcess(b, "io", "wchar:") - before
				size += sizeOf(b, path)
				b.StartTimer()
			}
			n := float64(b.N) * float64(resources)
			b.ReportMetric(float64(b.Elapsed().Microseconds())/n, "µs/resource")
			b.ReportMetric(float64(written)/1000/n, "kB-written/resource")
			b.ReportMetric(float64(size)/n, "B/resource")
			b.ReportMetric(float64(read.Microseconds())/n, "µs-read/resource")
			b.ReportMetric(float64(idle.Microseconds()), "µs-idle")
			b.ReportMetric(float64(plan.Microseconds()), "µs-plan")
			b.ReportMetric(peak(b), "MB-peak")
		})
	}
}

// fastest is the shortest time of several: others may use the processors, too. before is called
// before each with its number.
func fastest(b *testing.B, do func() error, before ...func(time int)) time.Duration {
	b.Helper()
	least := time.Hour
	for i := range 20 {
		for _, f := range before {
			f(i)
		}
		begun := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(begun))
	}
	return least
}

// askIdle asks what a run asks for which nothing has changed.
func askIdle(b *testing.B, c *Catalog, s SetID) error {
	_, _, err := c.Mirror.Cursor(b.Context(), s)
	_, committed := c.Mirror.Committed(b.Context(), s)
	_, intents := c.Mirror.Intents(b.Context())
	_, _, counted := c.Facts.Count(b.Context(), s)
	for _, due := range c.Mirror.Due(b.Context(), s) {
		err = errors.Join(err, due)
	}
	return errors.Join(err, committed, intents, counted)
}

// askOf asks what a plan asks of resources that have changed.
func askOf(b *testing.B, c *Catalog, s SetID, uris []string) error {
	for some := range slices.Chunk(uris, lookupSize) {
		found, err := c.Facts.Lookup(b.Context(), s, some)
		_, asked := c.Mirror.Evidence(b.Context(), s, some)
		if err := errors.Join(err, asked); err != nil {
			return err
		}
		for i := range found {
			if found[i].URI != some[i] {
				return fmt.Errorf("%q is unknown", some[i])
			}
		}
	}
	_, _, err := c.Mirror.Losses(b.Context(), s)
	return err
}

// resources is how many a large set has.
func resources() int {
	if n, err := strconv.Atoi(os.Getenv("INSTEP_RESOURCES")); err == nil {
		return n
	}
	return 200_000
}

// BenchmarkMigration brings the catalog of a mirror of schema 12 up to date, in which a set has
// 200,000 resources, or what INSTEP_RESOURCES says.
func BenchmarkMigration(b *testing.B) {
	n := resources()
	var before, after int64
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "catalog.db")
		db := earlier(b, path, 12)
		for _, query := range []string{
			"INSERT INTO setting VALUES ('uuid', 'f3c0')",
			fmt.Sprintf("INSERT INTO sets (name, members, bytes) VALUES ('', %d, %d)", n, n),
			fmt.Sprintf(`INSERT INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, encoding, stat)
				WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d - 1)
				SELECT randomblob(16), printf('https://example.org/pdf/%%04d/%%07d.pdf', i / 1000, i), printf('pdf/%%04d/%%07d.pdf', i / 1000, i),
				randomblob(16), TRUE, 1, randomblob(32), '', TRUE, 'application/pdf', '', '1763700000123456 sha-256' FROM n`, n),
			"INSERT INTO member (set_id, key, changed, lastmod, due, wanted) SELECT 1, key, 1763700000123456, '2026-05-01T00:00:00Z', '', '' FROM resource",
		} {
			if _, err := db.Exec(query); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(checkpoint(b.Context(), db), db.Close()); err != nil {
			b.Fatal(err)
		}
		before += sizeOf(b, path)
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak is of what follows, where there is such a file
		b.StartTimer()
		c := reopen(b, path, false)
		b.StopTimer()
		if got, _, err := c.Facts.Count(b.Context(), 1); got != int64(n) || err != nil {
			b.Fatalf("%d members, %v; want %d", got, err, n)
		}
		if err := checkpoint(b.Context(), c.write); err != nil {
			b.Fatal(err)
		}
		after += sizeOf(b, path)
		b.StartTimer()
	}
	total := float64(b.N) * float64(n)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/total, "µs/resource")
	b.ReportMetric(float64(before)/total, "B-before/resource")
	b.ReportMetric(float64(after)/total, "B/resource")
	b.ReportMetric(peak(b), "MB-peak")
}

func sizeOf(b *testing.B, path string) int64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// arrive brings n resources of a large set, beginning with number first, as a mirror does.
func arrive(b *testing.B, c *Catalog, s SetID, first, n int, path func(i int) string) {
	b.Helper()
	o := Outcome{At: epoch}
	var intents []Intent
	for i := range n {
		r := nth(first+i, 0)
		r.URI = "https://example.org/" + path(first+i)
		intents = append(intents, Intent{URI: r.URI, Guess: Fold(placeLike(r.URI)), Length: r.Length, SHA256: r.Digests.Get(resourcesync.SHA256)})
		o.Stored = append(o.Stored, r)
		o.Members = append(o.Members, Membership{Set: s, URI: r.URI, Changed: epoch, LastMod: r.LastMod})
	}
	err := c.Mirror.Intend(b.Context(), intents, &o, askLike)
	if err == nil {
		err = c.Mirror.Settle(b.Context(), o, func() error { return nil })
	}
	if err != nil {
		b.Fatal(err)
	}
}

// placeLike is the path of a URI of a large set.
func placeLike(uri string) string {
	path, query, _ := strings.Cut(strings.TrimPrefix(uri, "https://example.org/"), "?")
	return path + strings.ReplaceAll(query, "/", "~")
}

// askLike places a URI, and asks what a mirror asks.
func askLike(uri string, names Names) (p Place, err error) {
	p.Path = placeLike(uri)
	for i := range len(p.Path) {
		if p.Path[i] != '/' {
			continue
		}
		if _, ok, err := names.Directory(p.Path[:i]); err != nil {
			return p, err
		} else if !ok {
			p.Directories = append(p.Directories, p.Path[:i])
		}
	}
	if taken, err := names.File(p.Path); err != nil || taken {
		return p, fmt.Errorf("%q is taken: %v, %w", p.Path, taken, err)
	}
	return p, nil
}

// read reads what a publication of the changes after a number needs.
func read(b *testing.B, c *Catalog, s SetID, after int64, want int) {
	b.Helper()
	last, _, err := c.Facts.LastSeq(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	if n, err := c.Facts.CountChanges(b.Context(), s, after, last); n != int64(want) || err != nil {
		b.Fatalf("CountChanges = %d, %v; want %d", n, err, want)
	}
	if _, _, err := c.Facts.Count(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, err := range c.Facts.Changes(b.Context(), s, after, last) {
		if n++; err != nil {
			b.Fatal(err)
		}
	}
	if n != want {
		b.Fatalf("%d changes, want %d", n, want)
	}
}

// nth is a resource of a large set as it is on some day.
func nth(i, day int) Resource {
	path := fmt.Sprintf("pdf/%04d/%07d.pdf", i/1000, i)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", i, day))
	digest, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		panic(err) // it has the right length
	}
	return Resource{URI: "https://example.org/" + path, Path: path, Length: resourcesync.Bytes(int64(1000 + day)),
		Digests: resourcesync.Digests{digest}, Type: "application/pdf", Stat: "stat", LastMod: resourcesync.DatetimeOf(epoch)}
}

// large enrolls members; a crash would lose them, which saves a minute.
func large(b *testing.B, c *Catalog, s SetID, members int) {
	b.Helper()
	if _, err := c.write.Exec("PRAGMA synchronous = OFF"); err != nil {
		b.Fatal(err)
	}
	batch := make([]Change, 0, 20_000)
	for i := range members {
		batch = append(batch, Change{Change: resourcesync.Created, Resource: nth(i, 0)})
		if len(batch) < cap(batch) && i < members-1 {
			continue
		}
		if err := c.Facts.Enroll(b.Context(), s, batch); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	if _, err := c.write.Exec("PRAGMA synchronous = FULL"); err != nil {
		b.Fatal(err)
	}
}

// peak is the most memory that was resident, in MB; 0 if the system does not tell.
func peak(b *testing.B) float64 {
	b.Helper()
	return float64(ofProcess(b, "status", "VmHWM:")) / 1000
}

// ofProcess is a number that the system tells of this process; 0 if it does not.
func ofProcess(b *testing.B, file, name string) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	return 0
}
