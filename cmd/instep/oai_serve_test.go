//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/oaipmh/oaipmhtest"
)

// oaiSite publishes a harvested set and one of files, with changes and deletions, and
// serves OAI-PMH for both. It returns the URL at which that is answered.
func oaiSite(t *testing.T, n int) (url, config string) {
	t.Helper()
	dir := t.TempDir()
	p := &oaipmhtest.Repository{Now: repositoryDay.Add(30 * 24 * time.Hour)}
	p.Fill(n, repositoryDay)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	site := filepath.Join(dir, "site")
	makeSite(t, filepath.Join(site, "files"), 30)
	config = filepath.Join(dir, "site.yaml")
	listener := httptest.NewUnstartedServer(nil)
	base := "http://" + listener.Listener.Addr().String() + "/"
	_ = listener.Listener.Close()
	text := fmt.Sprintf("base_url: %s\ndir: site\nstate: state\nsource:\n  title: Maps & more\n  contact: mailto:maps@example.org\n"+
		"sets:\n  - name: records\n    title: Records\n    from:\n      oai: %s\n  - name: files\n    include: [files/**]\n", base, server.URL)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	mustDo(t, "publish", "-c", config)
	late := repositoryDay.Add(20 * 24 * time.Hour)
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:3", Datestamp: late, Title: "Another title"})
	p.Put(oaipmhtest.Record{Identifier: "oai:example.org:4", Datestamp: late, Deleted: true})
	for _, name := range []string{"d00/f00000.txt", "d01/f00001.txt"} {
		if err := os.Remove(filepath.Join(site, "files", name)); err != nil {
			t.Fatal(err)
		}
	}
	mustDo(t, "publish", "-c", config)
	served, _ := serveSite(t, "-c", config, "--oai-pmh")
	return served + "/" + oaiPath, config
}

// harvestAll is all that our client reads of a repository.
func harvestAll(t *testing.T, url string, s oaipmh.Selection) []string {
	t.Helper()
	f, err := fetch.New(fetch.Options{})
	if err == nil {
		err = f.TrustSource(t.Context(), url)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &oaipmh.Client{Fetch: f, BaseURL: url, Observe: func(n oaipmh.Note) { t.Errorf("tolerated: %v", n) }}
	var all []string
	for r, err := range c.Records(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintln(r.Identifier, r.Datestamp, r.Sets, r.Deleted, len(r.Metadata) > 0))
	}
	return all
}

func TestServeOAI(t *testing.T) {
	url, _ := oaiSite(t, 1200)
	all := harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc"})
	count := map[string]int{}
	for _, line := range all {
		_, set, _ := strings.Cut(line, "[")
		set, _, _ = strings.Cut(set, "]")
		count[fmt.Sprint(set, strings.Contains(line, " true false"))]++
	}
	if got, want := fmt.Sprint(count), "map[filesfalse:28 filestrue:2 recordsfalse:1199 recordstrue:1]"; got != want {
		t.Errorf("records by set and deletion: %s, want %s", got, want)
	}
	if n := len(harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc", Set: "files"})); n != 30 {
		t.Errorf("%d records of the set files, want 30", n)
	}
	from := oaipmh.Stamp{Time: time.Now().Add(time.Hour)}
	if late := harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc", From: from}); len(late) != 0 {
		t.Errorf("records of the future: %q", late)
	}
	resp, err := http.Get(url + "?verb=GetRecord&identifier=oai:example.org:3&metadataPrefix=oai_dc")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := make([]byte, 4096)
	n, _ := resp.Body.Read(text)
	if !strings.Contains(string(text[:n]), "<dc:title>Another title<") {
		t.Errorf("GetRecord: %s", text[:n])
	}
}

// perl runs a script of testdata/oai and returns its lines, sorted.
func perl(t *testing.T, script string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "perl", append([]string{filepath.Join("testdata", "oai", script)}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perl %s %q: %v", script, args, err)
	}
	lines := slices.Collect(strings.Lines(string(out)))
	slices.Sort(lines)
	return lines
}

// needsPerl skips a test if a module of Perl is not there.
func needsPerl(t *testing.T, module string) {
	t.Helper()
	if err := exec.Command("perl", "-M"+module, "-e", "1").Run(); err != nil {
		t.Skipf("SKIPPED: no module %s of Perl (tools/needs.sh installs it)", module)
	}
}

// sameLines compares two harvests.
func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
		t.Errorf("%s: %d, want %d (-want +got):\n%.2000s", what, len(got), len(want), diff)
	}
}

// HTTP::OAI of Debian's libhttp-oai-perl reads from our repository what our client reads.
func TestOAIServedToHTTPOAI(t *testing.T) {
	needsPerl(t, "HTTP::OAI")
	url, _ := oaiSite(t, 1200)
	for _, set := range []string{"", "records", "files"} {
		args := []string{"metadataPrefix", "oai_dc"}
		if set != "" {
			args = append(args, "set", set)
		}
		want := harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc", Set: set})
		sameLines(t, "ListRecords of "+set, perl(t, "harvest.pl", append([]string{url, "ListRecords"}, args...)...), want)
		for i := range want {
			want[i] = strings.Replace(want[i], " true\n", " false\n", 1)
		}
		sameLines(t, "ListIdentifiers of "+set, perl(t, "harvest.pl", append([]string{url, "ListIdentifiers"}, args...)...), want)
	}
	if n := len(harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc"})); n != 1230 {
		t.Errorf("%d records in all, want 1230", n)
	}
	sameLines(t, "ListSets", perl(t, "harvest.pl", url, "ListSets"), []string{"records\n", "files\n"})
	sameLines(t, "ListMetadataFormats", perl(t, "harvest.pl", url, "ListMetadataFormats"), []string{"oai_dc\n"})
	identity := perl(t, "harvest.pl", url, "Identify")
	if len(identity) != 1 || !strings.HasPrefix(identity[0], "Maps & more | ") || !strings.HasSuffix(identity[0], " transient YYYY-MM-DDThh:mm:ssZ maps@example.org\n") {
		t.Errorf("Identify: %q", identity)
	}
	one := perl(t, "harvest.pl", url, "GetRecord", "metadataPrefix", "oai_dc", "identifier", "oai:example.org:7")
	if len(one) != 1 || !strings.HasPrefix(one[0], "oai:example.org:7 ") || !strings.HasSuffix(one[0], " [records] false true\n") {
		t.Errorf("GetRecord: %q", one)
	}
}

// Our client reads from Dancer::Plugin::Catmandu::OAI what that has, and what HTTP::OAI
// reads from it; and what is published from it is that, whole and by set.
func TestOAIHarvestedFromCatmandu(t *testing.T) {
	needsPerl(t, "HTTP::OAI")
	needsPerl(t, "Dancer::Plugin::Catmandu::OAI")
	const n = 1250
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	server := exec.Command("perl", filepath.Join("testdata", "oai", "serve.pl"), port, fmt.Sprint(n))
	server.Stderr = io.Discard
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	if err := waitForListener(addr); err != nil {
		t.Fatal(err)
	}
	url := "http://" + addr + "/oai"
	var want []string
	for i := 1; i <= n; i++ {
		stamp := repositoryDay.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
		set := map[bool]string{true: "even", false: "odd"}[i%2 == 0]
		want = append(want, fmt.Sprintf("oai:example.org:%d %s [%s] %v %v\n", i, stamp, set, i%10 == 0, i%10 != 0))
	}
	sameLines(t, "our client", harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc"}), want)
	sameLines(t, "HTTP::OAI", perl(t, "harvest.pl", url, "ListRecords", "metadataPrefix", "oai_dc"), want)
	sameLines(t, "our client, a set", harvestAll(t, url, oaipmh.Selection{Prefix: "oai_dc", Set: "even"}),
		slices.DeleteFunc(slices.Clone(want), func(line string) bool { return !strings.Contains(line, "[even]") }))
	for from, records := range map[string]int{"oai+" + url: n - n/10, "oai+" + url + "?set=even": n/2 - n/10} {
		dir := t.TempDir()
		o := mustDo(t, "publish", filepath.Join(dir, "site"), "--from", from, "--base-url", "https://copy.example.org/", "--state", filepath.Join(dir, "state"))
		if got := len(titles(t, filepath.Join(dir, "site"))); got != records {
			t.Errorf("%s: %d records published, want %d\n%s", from, got, records, o.stderr)
		}
	}
}

// oaiSchemas is the directory with the schemas of OAI-PMH and oai_dc, for xmllint.
func oaiSchemas(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("SKIPPED: no xmllint (tools/needs.sh installs it)")
	}
	list, err := os.ReadFile(filepath.Join("testdata", "foreign", "checkouts.txt"))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(list), "folio-org/mod-oai-pmh@")
	name, _, _ := strings.Cut(string(list[at:]), "\n")
	foreign := os.Getenv("INSTEP_FOREIGN")
	if foreign == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		foreign = filepath.Join(cache, "instep-foreign")
	}
	from, to := filepath.Join(foreign, filepath.FromSlash(name), "ramls", "schemas"), t.TempDir()
	if _, err := os.Stat(from); err != nil {
		t.Skipf("SKIPPED: no schema of OAI-PMH in %s (make foreign fetches it)", from)
	}
	for name, change := range map[string]*strings.Replacer{
		"OAI-PMH.xsd": strings.NewReplacer(), "oai_dc.xsd": strings.NewReplacer(),
		"simpledc20021212.xsd": strings.NewReplacer("http://www.w3.org/2001/03/xml.xsd", "xml.xsd"),
	} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), []byte(change.Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"xml.xsd": `<schema xmlns="http://www.w3.org/2001/XMLSchema" targetNamespace="http://www.w3.org/XML/1998/namespace"><attribute name="lang" type="language"/></schema>`,
		"all.xsd": `<schema xmlns="http://www.w3.org/2001/XMLSchema"><import namespace="http://www.openarchives.org/OAI/2.0/" schemaLocation="OAI-PMH.xsd"/>` +
			`<import namespace="http://www.openarchives.org/OAI/2.0/oai_dc/" schemaLocation="oai_dc.xsd"/></schema>`,
	} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(to, "all.xsd")
}

// The answer to every verb, and every error, is valid by the schema of OAI-PMH.
func TestOAIAnswersAreValid(t *testing.T) {
	schema := oaiSchemas(t)
	url, _ := oaiSite(t, 20)
	for _, query := range []string{
		"verb=Identify", "verb=ListMetadataFormats", "verb=ListMetadataFormats&identifier=oai:example.org:1", "verb=ListSets",
		"verb=ListRecords&metadataPrefix=oai_dc", "verb=ListIdentifiers&metadataPrefix=oai_dc&set=files",
		"verb=ListRecords&metadataPrefix=oai_dc&from=2020-01-01&until=2100-01-01", "verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:example.org:1",
		"", "verb=Nothing", "verb=Identify&verb=Identify", "verb=Identify&x=y", "verb=ListRecords", "verb=ListRecords&metadataPrefix=marc21",
		"verb=ListRecords&metadataPrefix=oai_dc&from=2020", "verb=ListRecords&metadataPrefix=oai_dc&from=2100-01-01", "verb=ListRecords&resumptionToken=x",
		"verb=GetRecord&metadataPrefix=oai_dc&identifier=none", "verb=GetRecord&metadataPrefix=oai_dc&identifier=%00%ff", "verb=ListSets&resumptionToken=x",
		"verb=ListRecords&metadataPrefix=oai_dc&set=none", "verb=ListRecords&metadataPrefix=oai_dc&from=2024-01-01&until=2024-01-01T00:00:00Z",
	} {
		resp, err := http.Get(url + "?" + query)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", query, resp.Status, err)
			continue
		}
		lint := exec.Command("xmllint", "--noout", "--nonet", "--schema", schema, "-")
		lint.Stdin = strings.NewReader(string(text))
		if out, err := lint.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%.1500s", query, err, out, text)
		}
	}
}
