// Package oaipmhtest has an OAI-PMH repository for tests that can behave like faulty
// servers. It shares no code with package oaipmh, which it tests.
package oaipmhtest

import (
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Record is a record of a Repository.
type Record struct {
	Identifier string
	Datestamp  time.Time
	Sets       []string
	Deleted    bool
	Title      string
	Link       string // text of dc:identifier in generated metadata; "" means none
	Metadata   string // metadata of the record as XML; "" means generated oai_dc
}

// Repository is an HTTP handler that answers OAI-PMH requests. A test locks it to change
// fields between requests.
type Repository struct {
	sync.Mutex
	Records  []Record // all records, in any order
	PageSize int      // largest number of records in a response; 0 means 100
	Days     bool     // whether datestamps are days and not seconds
	Deleted  string   // "deletedRecord" in the response to Identify; "" means "persistent"
	Now      time.Time
	NoGzip   bool
	Unsorted bool // whether records are listed in the order of Records and not of datestamps
	// Fault is called for each request with the number n of the request, from 1. It returns
	// true after it has sent the response itself.
	Fault func(n int, w http.ResponseWriter, r *http.Request) bool
	// Change is called with each response, and returns the response to send.
	Change func(r *http.Request, answer string) string

	requests int
	queries  []string

	chosen   string   // arguments of the last list request; "" if its selection is outdated
	selected []Record // records that this request selected, in the order of the list
}

// Requests returns the query of each request so far.
func (p *Repository) Requests() []string {
	p.Lock()
	defer p.Unlock()
	return append([]string(nil), p.queries...)
}

// Put adds a record or replaces the record with the same identifier.
func (p *Repository) Put(r Record) {
	p.Lock()
	defer p.Unlock()
	p.chosen = ""
	for i := range p.Records {
		if p.Records[i].Identifier == r.Identifier {
			p.Records[i] = r
			return
		}
	}
	p.Records = append(p.Records, r)
}

// Changed must be called after a test has changed Records directly.
func (p *Repository) Changed() { p.chosen = "" }

// Fill adds n records with the identifiers oai:example.org:1, oai:example.org:2 and so
// on. Their datestamps are one second apart, and the first one is one second after
// begin.
func (p *Repository) Fill(n int, begin time.Time) {
	for i := 1; i <= n; i++ {
		p.Records = append(p.Records, Record{Identifier: fmt.Sprintf("oai:example.org:%d", i), Datestamp: begin.Add(time.Duration(i) * time.Second),
			Title: fmt.Sprintf("Title %d", i), Sets: []string{[]string{"maps", "books:old", "books:new"}[i%3]}})
	}
}

// ServeHTTP answers a request.
func (p *Repository) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.Lock()
	defer p.Unlock()
	p.requests++
	p.queries = append(p.queries, r.URL.RawQuery)
	if p.Fault != nil && p.Fault(p.requests, w, r) {
		return
	}
	answer := p.Answer(r)
	if p.Change != nil {
		answer = p.Change(r, answer)
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	if !p.NoGzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		fmt.Fprint(z, answer)
		return
	}
	fmt.Fprint(w, answer)
}

// Answer returns the response to a request as XML.
func (p *Repository) Answer(r *http.Request) string {
	q := r.URL.Query()
	now := p.Now
	if now.IsZero() {
		now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	head := `<?xml version="1.0" encoding="UTF-8"?>
<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">
<responseDate>` + now.UTC().Format("2006-01-02T15:04:05Z") + `</responseDate>
<request>http://` + r.Host + r.URL.Path + `</request>
`
	verb := q.Get("verb")
	switch verb {
	case "Identify":
		return head + p.identify(r) + "</OAI-PMH>\n"
	case "ListMetadataFormats":
		return head + `<ListMetadataFormats><metadataFormat><metadataPrefix>oai_dc</metadataPrefix><schema>http://www.openarchives.org/OAI/2.0/oai_dc.xsd</schema><metadataNamespace>http://www.openarchives.org/OAI/2.0/oai_dc/</metadataNamespace></metadataFormat></ListMetadataFormats></OAI-PMH>`
	case "ListSets":
		return head + "<ListSets><set><setSpec>maps</setSpec><setName>Maps</setName></set><set><setSpec>books:old</setSpec><setName>Old books</setName></set></ListSets></OAI-PMH>"
	case "GetRecord":
		for i := range p.Records {
			if p.Records[i].Identifier == q.Get("identifier") {
				return head + "<GetRecord>" + p.record(&p.Records[i], verb) + "</GetRecord></OAI-PMH>"
			}
		}
		return head + failure("idDoesNotExist")
	case "ListRecords", "ListIdentifiers":
		return head + p.list(verb, q.Get("resumptionToken"), q.Get("from"), q.Get("until"), q.Get("set"))
	}
	return head + failure("badVerb")
}

func failure(code string) string {
	return `<error code="` + code + `">as the test wants</error></OAI-PMH>`
}

func (p *Repository) layout() string {
	if p.Days {
		return time.DateOnly
	}
	return "2006-01-02T15:04:05Z"
}

func (p *Repository) identify(r *http.Request) string {
	deleted, granularity := p.Deleted, "YYYY-MM-DDThh:mm:ssZ"
	if deleted == "" {
		deleted = "persistent"
	}
	if p.Days {
		granularity = "YYYY-MM-DD"
	}
	earliest := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	return "<Identify><repositoryName>A repository of tests</repositoryName><baseURL>http://" + r.Host + r.URL.Path +
		"</baseURL><protocolVersion>2.0</protocolVersion><adminEmail>admin@example.org</adminEmail><earliestDatestamp>" +
		earliest.Format(p.layout()) + "</earliestDatestamp><deletedRecord>" + deleted + "</deletedRecord><granularity>" + granularity + "</granularity></Identify>"
}

func (p *Repository) record(r *Record, verb string) string {
	var b strings.Builder
	status := ""
	if r.Deleted {
		status = ` status="deleted"`
	}
	fmt.Fprintf(&b, "<header%s><identifier>%s</identifier><datestamp>%s</datestamp>", status, r.Identifier, r.Datestamp.UTC().Format(p.layout()))
	for _, s := range r.Sets {
		fmt.Fprintf(&b, "<setSpec>%s</setSpec>", s)
	}
	b.WriteString("</header>")
	if verb == "ListIdentifiers" {
		return b.String()
	}
	if !r.Deleted {
		b.WriteString("<metadata>" + r.metadata() + "</metadata>")
	}
	return "<record>" + b.String() + "</record>"
}

func (r *Record) metadata() string {
	if r.Metadata != "" {
		return r.Metadata
	}
	link := ""
	if r.Link != "" {
		link = "<dc:identifier>" + r.Link + "</dc:identifier>"
	}
	return `<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/" xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd"><dc:title>` +
		r.Title + "</dc:title><dc:creator>Example, Given</dc:creator><dc:date>2001</dc:date>" + link + "</oai_dc:dc>"
}

// list returns a page of a list. The resumption token contains the selection and the
// number of records sent so far, so that the Repository stores no state.
func (p *Repository) list(verb, token, from, until, set string) string {
	skip := 0
	if token != "" {
		text, err := base64.URLEncoding.DecodeString(token)
		parts := strings.Split(string(text), "|")
		if err != nil || len(parts) != 4 {
			return failure("badResumptionToken")
		}
		from, until, set = parts[0], parts[1], parts[2]
		if skip, err = strconv.Atoi(parts[3]); err != nil {
			return failure("badResumptionToken")
		}
	}
	if p.Days && (len(from) > len(time.DateOnly) || len(until) > len(time.DateOnly)) {
		return failure("badArgument")
	}
	key := fmt.Sprint(len(p.Records), from, "|", until, "|", set)
	if p.chosen != key {
		p.chosen, p.selected = key, p.choose(from, until, set)
	}
	found := p.selected
	if len(found) == 0 {
		return failure("noRecordsMatch")
	}
	size := p.PageSize
	if size == 0 {
		size = 100
	}
	var b strings.Builder
	b.WriteString("<" + verb + ">")
	for _, r := range found[min(skip, len(found)):min(skip+size, len(found))] {
		b.WriteString(p.record(&r, verb))
	}
	if skip+size < len(found) {
		next := base64.URLEncoding.EncodeToString([]byte(fmt.Sprintf("%s|%s|%s|%d", from, until, set, skip+size)))
		fmt.Fprintf(&b, `<resumptionToken completeListSize="%d" cursor="%d">%s</resumptionToken>`, len(found), skip, next)
	} else if skip > 0 {
		b.WriteString("<resumptionToken/>")
	}
	return b.String() + "</" + verb + "></OAI-PMH>\n"
}

func (p *Repository) choose(from, until, set string) (found []Record) {
	for _, r := range p.Records {
		stamp := r.Datestamp.UTC().Format("2006-01-02T15:04:05Z")
		in := set == ""
		for _, s := range r.Sets {
			in = in || s == set || strings.HasPrefix(s, set+":")
		}
		if in && (from == "" || stamp >= from) && (until == "" || stamp[:min(len(stamp), len(until))] <= until) {
			found = append(found, r)
		}
	}
	if p.Unsorted {
		return found
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Datestamp.Before(found[j].Datestamp) })
	return found
}
