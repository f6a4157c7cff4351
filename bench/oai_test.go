//go:build unix

package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"instep/fetch"
	"instep/internal/catalog"
	"instep/internal/oaipmh"
	"instep/internal/repository"
	"instep/resourcesync"
)

var oaiTable = flag.String("oai", "", "measure the full sets and write the table of OAI-PMH to this file")

// oaiRow is a line of the table: records and the time that they took.
type oaiRow struct {
	name    string
	records int
	took    time.Duration
	cpu     time.Duration // of the processor, by this process: client and server are both in it
	memory  uint64        // most bytes of heap in use; 0 is not measured
	note    string
}

func (r *oaiRow) rate() float64 { return float64(r.records) / r.took.Seconds() }

// cpuRate is the rate on a machine that does nothing else and has one processor.
func (r *oaiRow) cpuRate() float64 { return float64(r.records) / r.cpu.Seconds() }

// manyRecords is a repository of n records that are made as they are asked for, 500 an answer.
func manyRecords(n int) http.Handler {
	const page = 500
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		b := []byte(`<?xml version="1.0" encoding="UTF-8"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><responseDate>2026-01-01T00:00:00Z</responseDate><request>http://example.org/oai</request>`)
		switch r.URL.Query().Get("verb") {
		case "Identify":
			b = append(b, `<Identify><repositoryName>Many</repositoryName><baseURL>http://example.org/oai</baseURL><protocolVersion>2.0</protocolVersion><adminEmail>a@example.org</adminEmail><earliestDatestamp>2020-01-01T00:00:00Z</earliestDatestamp><deletedRecord>persistent</deletedRecord><granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>`...)
		case "ListRecords":
			from, _ := strconv.Atoi(r.URL.Query().Get("resumptionToken"))
			b = append(b, "<ListRecords>"...)
			until := min(from+page, n)
			for i := from; i < until; i++ {
				b = appendRecord(b, i)
			}
			if until < n {
				b = fmt.Appendf(b, "<resumptionToken>%d</resumptionToken>", until)
			}
			b = append(b, "</ListRecords>"...)
		default:
			b = append(b, `<error code="badVerb"/>`...)
		}
		_, _ = w.Write(append(b, "</OAI-PMH>"...))
	})
}

func appendRecord(b []byte, i int) []byte {
	stamp := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second).Format(time.RFC3339)
	b = fmt.Appendf(b, "<record><header><identifier>oai:example.org:%d</identifier><datestamp>%s</datestamp><setSpec>maps</setSpec></header><metadata>", i, stamp)
	return append(append(b, dublinCore(i)...), "</metadata></record>\n"...)
}

// dublinCore is the metadata of a record: some 900 bytes.
func dublinCore(i int) string {
	return fmt.Sprintf(`<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/" xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd">`+
		`<dc:title>A map of the river, sheet %d</dc:title><dc:creator>Example, Given</dc:creator><dc:creator>Other, Name</dc:creator><dc:subject>rivers</dc:subject><dc:subject>maps</dc:subject>`+
		`<dc:description>%s</dc:description><dc:date>1901</dc:date><dc:type>Image</dc:type><dc:identifier>https://example.org/maps/%d</dc:identifier><dc:language>en</dc:language></oai_dc:dc>`,
		i, strings.Repeat("Surveyed and drawn by hand. ", 12), i)
}

// oaiClient asks a local server.
func oaiClient(ctx context.Context, url string) (*oaipmh.Client, error) {
	f, err := fetch.New(fetch.Options{})
	if err == nil {
		err = f.TrustSource(ctx, url)
	}
	return &oaipmh.Client{Fetch: f, BaseURL: url}, err
}

// watchHeap returns the most bytes of heap in use until stop is called.
func watchHeap() (stop func() uint64) {
	runtime.GC()
	var most atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 { close(done); <-ended; return most.Load() }
}

// harvestOnly lists n records and keeps none.
func harvestOnly(ctx context.Context, url string, n int) (row oaiRow, err error) {
	c, err := oaiClient(ctx, url)
	if err != nil {
		return row, err
	}
	begin, cpu := time.Now(), cpuTime()
	for _, err := range c.Records(ctx, oaipmh.Selection{Prefix: "oai_dc"}) {
		if err != nil {
			return row, err
		}
		row.records++
	}
	row.name, row.took, row.cpu = "**harvest**, records listed", time.Since(begin), cpuTime()-cpu
	return row, complete(row, n)
}

func complete(row oaiRow, n int) error {
	if row.records != n {
		return fmt.Errorf("%s: %d records, want %d", row.name, row.records, n)
	}
	return nil
}

// harvestToStore harvests n records into a database, each answer durable before the next.
func harvestToStore(ctx context.Context, url, dir string, n int) (row oaiRow, err error) {
	c, err := oaiClient(ctx, url)
	if err != nil {
		return row, err
	}
	st, err := repository.Open(ctx, dir, repository.Key{BaseURL: url, Prefix: "oai_dc"})
	if err != nil {
		return row, err
	}
	stop, begin, cpu := watchHeap(), time.Now(), cpuTime()
	h := repository.Harvest{Client: c, Store: st, Prefix: "oai_dc", Now: time.Now}
	sum, err := h.Run(ctx)
	row = oaiRow{name: "**harvest** into the state, durable", records: int(sum.Records), took: time.Since(begin), cpu: cpuTime() - cpu, memory: stop()}
	return row, errors.Join(err, st.Close(), complete(row, n))
}

// byHTTPOAI harvests by HTTP::OAI, which is not ours.
func byHTTPOAI(ctx context.Context, url string, n int) (row oaiRow, err error) {
	row.name = "HTTP::OAI 4.12 (Perl), records listed"
	if exec.CommandContext(ctx, "perl", "-MHTTP::OAI", "-e", "1").Run() != nil {
		row.note = "not run: no HTTP::OAI (tools/needs.sh installs it)"
		return row, nil
	}
	begin := time.Now()
	out, err := exec.CommandContext(ctx, "perl", filepath.Join("..", "cmd", "instep", "testdata", "oai", "harvest.pl"), url, "ListRecords", "metadataPrefix", "oai_dc").Output()
	row.took, row.records = time.Since(begin), strings.Count(string(out), "\n")
	return row, errors.Join(err, complete(row, n))
}

// publishedOf records n harvested records in a catalog, and says how they are served.
// What was harvested from url is in the state, another directory.
func publishedOf(ctx context.Context, dir, state, url string, n int) (*repository.Published, func() error, error) {
	db, err := catalog.Open(ctx, catalog.Options{Path: filepath.Join(dir, catalog.FileName), Create: true, Now: time.Now})
	if err != nil {
		return nil, nil, err
	}
	set, err := db.Facts.Set(ctx, "maps")
	if err != nil {
		return nil, db.Close, err
	}
	const base = "https://copy.example.org/"
	var some []catalog.Change
	for i := range n {
		path := repository.PathOf("oai_dc", fmt.Sprintf("oai:example.org:%d", i))
		text := `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + strings.Replace(dublinCore(i), " xsi:", ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:`, 1)
		name := filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			return nil, db.Close, err
		}
		sum := sha256.Sum256([]byte(text))
		digest, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
		if err != nil {
			return nil, db.Close, err
		}
		some = append(some, catalog.Change{Change: resourcesync.Created, Resource: catalog.Resource{URI: base + path, Path: path,
			Length: resourcesync.Bytes(int64(len(text))), Digests: resourcesync.Digests{digest}, Type: "application/xml", Stat: "x"}})
		if len(some) == 5000 || i == n-1 {
			if err := db.Facts.Enroll(ctx, set, some); err != nil {
				return nil, db.Close, err
			}
			some = some[:0]
		}
	}
	key := repository.Key{BaseURL: url, Prefix: "oai_dc"}
	st, err := repository.Open(ctx, state, key)
	if err != nil {
		return nil, db.Close, err
	}
	return &repository.Published{Catalog: db.Facts, Stores: map[repository.Key]*repository.Store{key: st}, BaseURL: base, Name: "Maps", Emails: []string{"maps@example.org"}, Files: os.DirFS(dir),
		Shown: []repository.PublishedSet{{ID: set, Name: "maps", Harvest: &key}}}, func() error { return errors.Join(st.Close(), db.Close()) }, nil
}

// served reads all of a list as bytes: what the client does with it does not count.
func served(name, url string, n int) (row oaiRow, err error) {
	row.name = name
	begin, cpu, next := time.Now(), cpuTime(), url+"?verb=ListRecords&metadataPrefix=oai_dc"
	for {
		resp, err := http.Get(next)
		if err != nil {
			return row, err
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return row, fmt.Errorf("%s: %s, %w", next, resp.Status, err)
		}
		row.records += strings.Count(string(text), "<record>")
		_, rest, _ := strings.Cut(string(text), "<resumptionToken")
		_, rest, _ = strings.Cut(rest, ">")
		token, _, _ := strings.Cut(rest, "<")
		if token = strings.TrimSpace(token); token == "" {
			break
		}
		next = url + "?verb=ListRecords&resumptionToken=" + token
	}
	row.took, row.cpu = time.Since(begin), cpuTime()-cpu
	return row, complete(row, n)
}

// servedByCatmandu serves n records by Dancer::Plugin::Catmandu::OAI, which is not ours.
func servedByCatmandu(ctx context.Context, n int) (row oaiRow, err error) {
	row.name = "Dancer::Plugin::Catmandu::OAI 0.0508 (Perl), served from memory"
	if exec.CommandContext(ctx, "perl", "-MDancer::Plugin::Catmandu::OAI", "-e", "1").Run() != nil {
		row.note = "not run: no Dancer::Plugin::Catmandu::OAI (tools/needs.sh installs it)"
		return row, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return row, err
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(ctx, "perl", filepath.Join("..", "cmd", "instep", "testdata", "oai", "serve.pl"), port, fmt.Sprint(n))
	if err := cmd.Start(); err != nil {
		return row, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			return row, err
		}
		time.Sleep(50 * time.Millisecond) // another process starts, and nothing tells when it listens
	}
	row, err = served(row.name, "http://"+addr+"/oai", n)
	row.cpu = 0 // of another process
	return row, err
}

// TestOAI measures all rows and prints them as one table.
func TestOAI(t *testing.T) {
	notShort(t)
	n, many, foreign := 2000, 4000, 500
	if *oaiTable != "" {
		n, many, foreign = 100_000, 1_000_000, 2000
	}
	rows, err := oaiRows(t, n, many, foreign)
	if err != nil {
		t.Fatal(err)
	}
	table := renderOAI(rows)
	t.Log("\n" + table)
	if *oaiTable == "" {
		return
	}
	if err := os.WriteFile(*oaiTable, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	// The bounds are those of a processor that does nothing else: others may use this one.
	if list, store, answers, large := &rows[0], &rows[1], &rows[4], &rows[2]; list.cpuRate() < 5000 || store.cpuRate() < 5000 || answers.cpuRate() < 10_000 || large.memory > 2*store.memory {
		t.Errorf("a bound was missed: harvest %.0f and %.0f records/s (5,000), served %.0f (10,000), memory %d and %d", list.cpuRate(), store.cpuRate(), answers.cpuRate(), store.memory, large.memory)
	}
}

func oaiRows(t *testing.T, n, many, foreign int) (rows []oaiRow, err error) {
	ctx := t.Context()
	small, large := httptest.NewServer(manyRecords(n)), httptest.NewServer(manyRecords(many))
	defer small.Close()
	defer large.Close()
	var row oaiRow
	add := func(r oaiRow, failed error) { rows, err = append(rows, r), errors.Join(err, failed) }
	row, failed := harvestOnly(ctx, small.URL, n)
	add(row, failed)
	state := t.TempDir()
	row, failed = harvestToStore(ctx, small.URL, state, n)
	add(row, failed)
	row, failed = harvestToStore(ctx, large.URL, t.TempDir(), many)
	add(row, failed)
	row, failed = byHTTPOAI(ctx, small.URL, n)
	add(row, failed)
	p, closed, failed := publishedOf(ctx, t.TempDir(), state, small.URL, n)
	if err = errors.Join(err, failed); err != nil {
		return rows, err
	}
	h := httptest.NewServer(&oaipmh.Handler{Repository: p, BaseURL: "https://copy.example.org/oai", Now: time.Now})
	defer h.Close()
	row, failed = served("**ListRecords** from SQLite", h.URL, n)
	add(row, failed)
	row, failed = servedByCatmandu(ctx, foreign)
	add(row, failed)
	return rows, errors.Join(err, closed())
}

// renderOAI prints the rows; those of others are what ours are compared with.
func renderOAI(rows []oaiRow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| OAI-PMH (%d processors) | records | records/s | a second of processor | heap, MB | |\n|---|---:|---:|---:|---:|---|\n", runtime.NumCPU())
	for i := range rows {
		r := &rows[i]
		if r.note != "" {
			fmt.Fprintf(&b, "| %s | | | | | %s |\n", r.name, r.note)
			continue
		}
		memory, beside, cpu := "", "", ""
		if r.cpu > 0 {
			cpu = fmt.Sprintf("%.0f", r.cpuRate())
		}
		if r.memory > 0 {
			memory = fmt.Sprint(r.memory >> 20)
		}
		for own, other := range map[int]int{0: 3, 1: 3, 4: 5} {
			if i == own && rows[other].took > 0 {
				beside = fmt.Sprintf("%.1f times the rate of %s", r.rate()/rows[other].rate(), rows[other].name)
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %.0f | %s | %s | %s |\n", r.name, r.records, r.rate(), cpu, memory, beside)
	}
	return b.String()
}
