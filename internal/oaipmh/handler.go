package oaipmh

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Repository supplies the records of a Handler. Its methods may be called concurrently.
// An *Error is sent to the harvester as a protocol error; any other error is answered
// with status 500.
type Repository interface {
	// Identity returns the description of the repository. Its Date is not used.
	Identity(ctx context.Context) (Identity, error)
	// Formats returns the metadata formats of the record with the given identifier. If
	// identifier is "", it returns the metadata formats of all records.
	Formats(ctx context.Context, identifier string) ([]Format, error)
	// Sets returns the sets of the repository, if it has any.
	Sets(ctx context.Context) ([]Set, error)
	// List yields the records of a selection that come after a position in the list. The
	// position "" is the beginning of the list. A record keeps its position until it
	// changes. If metadata is false, the records need no Metadata.
	List(ctx context.Context, s Selection, after string, metadata bool) iter.Seq2[Item, error]
	// Record returns one record in a metadata format.
	Record(ctx context.Context, identifier, prefix string) (Record, error)
}

// Item is a record in a list. Place is the position of the record in the list; List can
// continue after this position.
type Item struct {
	Record
	Place string
}

// Handler answers OAI-PMH 2.0 requests. Repository, BaseURL and Now are required.
// Resumption tokens never expire, because a token contains the selection and the
// position of the last record.
type Handler struct {
	Repository Repository
	BaseURL    string // URL at which harvesters reach the Handler
	Now        func() time.Time
	PageSize   int         // largest number of records in a response; 0 means 500
	Parallel   int         // largest number of requests answered at a time; further requests get status 503; 0 means 64
	Report     func(error) // called with each error that leads to status 500; may be nil

	once   sync.Once
	places places
}

// Limits of a Handler.
const (
	defaultPage = 500
	maxPageBody = 2 << 20  // length of a response in bytes; when it is reached, no more records are added
	maxForm     = 64 << 10 // largest length in bytes of a POST request
	parallel    = 64       // default for Handler.Parallel; low, because responses are built in memory
)

// arguments are the arguments that each verb takes (§4).
var arguments = map[Verb]struct{ required, optional []string }{
	VerbIdentify:    {},
	VerbFormats:     {optional: []string{"identifier"}},
	VerbSets:        {optional: []string{"resumptionToken"}},
	VerbIdentifiers: {required: []string{"metadataPrefix"}, optional: []string{"from", "until", "set", "resumptionToken"}},
	VerbRecords:     {required: []string{"metadataPrefix"}, optional: []string{"from", "until", "set", "resumptionToken"}},
	VerbRecord:      {required: []string{"identifier", "metadataPrefix"}},
}

func refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// ServeHTTP answers a request by GET or POST (§3.1.1).
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forbidScripts(w)
	h.once.Do(func() { h.places = make(places, cmp.Or(max(h.Parallel, 0), parallel)) })
	if !h.places.enter(w) {
		return
	}
	defer h.places.leave()
	args, ok := query(w, r)
	if !ok {
		return
	}
	now := h.Now()
	var body bytes.Buffer
	verb, err := verbOf(args)
	if err == nil {
		err = h.answer(r.Context(), &body, verb, args)
	}
	var refused *Error
	switch {
	case errors.As(err, &refused):
		body.Reset()
		WriteElement(&body, "error", refused.Msg, "code", string(refused.Code))
	case err != nil:
		if h.Report != nil && r.Context().Err() == nil {
			h.Report(fmt.Errorf("answer %s?%s: %w", h.BaseURL, args.Encode(), err))
		}
		http.Error(w, "the repository has an internal error, which its operator has to repair", http.StatusInternalServerError)
		return
	}
	if refused != nil && (refused.Code == BadVerb || refused.Code == BadArgument) {
		args = nil // §3.6
	}
	h.send(w, r, now, args, body.Bytes())
}

// query returns the arguments of a GET or POST request. It answers an invalid request
// itself, and then returns false.
func query(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	text := r.URL.RawQuery
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
		if err != nil {
			http.Error(w, "the request is too long", http.StatusRequestEntityTooLarge)
			return nil, false
		}
		text = string(b)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "expected GET or POST", http.StatusMethodNotAllowed)
		return nil, false
	}
	args, err := url.ParseQuery(text)
	if err != nil || !isLegalXML(args) {
		args = url.Values{"verb": args["verb"], "": {""}} // no verb takes the argument "", so the request is refused with badArgument
	}
	return args, true
}

// isLegalXML reports whether XML allows all characters of the arguments. Others cannot
// be answered, because the response has to repeat the arguments.
func isLegalXML(args url.Values) bool {
	for name, values := range args {
		for _, text := range append(values, name) {
			if strings.ContainsFunc(text, func(r rune) bool { return !isChar(r) }) || !utf8.ValidString(text) {
				return false
			}
		}
	}
	return true
}

// verbOf returns the verb of a request. It returns an error if arguments are missing,
// unknown or repeated.
func verbOf(args url.Values) (Verb, error) {
	if n := len(args["verb"]); n != 1 {
		return "", refuse(BadVerb, "expected one verb, found %d", n)
	}
	verb := Verb(args.Get("verb"))
	takes, ok := arguments[verb]
	if !ok {
		return "", refuse(BadVerb, "expected Identify, ListMetadataFormats, ListSets, ListIdentifiers, ListRecords or GetRecord")
	}
	for name, values := range args {
		switch {
		case name == "verb":
		case !slices.Contains(takes.required, name) && !slices.Contains(takes.optional, name):
			return "", refuse(BadArgument, "the verb %s has no argument %q", verb, name)
		case len(values) != 1 || values[0] == "":
			return "", refuse(BadArgument, "expected one value of the argument %s", name)
		}
	}
	if args.Has("resumptionToken") {
		if len(args) != 2 {
			return "", refuse(BadArgument, "expected resumptionToken as the only argument")
		}
		return verb, nil
	}
	for _, name := range takes.required {
		if !args.Has(name) {
			return "", refuse(BadArgument, "the verb %s requires the argument %s", verb, name)
		}
	}
	return verb, nil
}

func (h *Handler) answer(ctx context.Context, b *bytes.Buffer, verb Verb, args url.Values) error {
	switch verb {
	case VerbIdentify:
		return h.identify(ctx, b)
	case VerbFormats:
		return h.formats(ctx, b, args.Get("identifier"))
	case VerbSets:
		return h.sets(ctx, b, args)
	case VerbRecord:
		r, err := h.Repository.Record(ctx, args.Get("identifier"), args.Get("metadataPrefix"))
		if err != nil {
			return err
		}
		b.WriteString("<GetRecord>\n")
		writeRecord(b, &r)
		b.WriteString("</GetRecord>\n")
		return nil
	}
	return h.list(ctx, b, verb, args)
}

func (h *Handler) identify(ctx context.Context, b *bytes.Buffer) error {
	id, err := h.Repository.Identity(ctx)
	if err != nil {
		return err
	}
	b.WriteString("<Identify>\n")
	WriteElement(b, "repositoryName", id.Name)
	WriteElement(b, "baseURL", h.BaseURL)
	WriteElement(b, "protocolVersion", "2.0")
	for _, e := range id.Emails {
		WriteElement(b, "adminEmail", e)
	}
	WriteElement(b, "earliestDatestamp", id.Earliest.In(id.Days))
	WriteElement(b, "deletedRecord", string(id.Deleted))
	granularity := "YYYY-MM-DDThh:mm:ssZ"
	if id.Days {
		granularity = "YYYY-MM-DD"
	}
	WriteElement(b, "granularity", granularity)
	WriteElement(b, "compression", "gzip")
	b.WriteString("</Identify>\n")
	return nil
}

func (h *Handler) formats(ctx context.Context, b *bytes.Buffer, identifier string) error {
	formats, err := h.Repository.Formats(ctx, identifier)
	if err != nil {
		return err
	}
	if len(formats) == 0 {
		return refuse(NoMetadataFormats, "the record has no format")
	}
	b.WriteString("<ListMetadataFormats>\n")
	for _, f := range formats {
		writeGroup(b, "metadataFormat", "metadataPrefix", f.Prefix, "schema", f.Schema, "metadataNamespace", f.Namespace)
	}
	b.WriteString("</ListMetadataFormats>\n")
	return nil
}

func (h *Handler) sets(ctx context.Context, b *bytes.Buffer, args url.Values) error {
	if args.Has("resumptionToken") {
		return refuse(BadResumptionToken, "the list of sets is complete in one response, so it has no resumption token")
	}
	sets, err := h.Repository.Sets(ctx)
	if err != nil {
		return err
	}
	if len(sets) == 0 {
		return refuse(NoSetHierarchy, "the repository has no sets")
	}
	b.WriteString("<ListSets>\n")
	for _, s := range sets {
		writeGroup(b, "set", "setSpec", s.Spec, "setName", s.Name)
	}
	b.WriteString("</ListSets>\n")
	return nil
}

// token is the content of a resumption token. It contains the whole selection, so that
// the Handler stores no state.
type token struct {
	Prefix string `json:"p"`
	Set    string `json:"s,omitempty"`
	From   Stamp  `json:"f,omitzero"`
	Until  Stamp  `json:"u,omitzero"`
	After  string `json:"a"` // position (Item.Place) of the last record in the response
	Cursor int    `json:"c"` // number of records in earlier responses
}

func (t token) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot happen: all fields of a token can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseToken(text string) (t token, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil || t.Prefix == "" || t.After == "" || t.Cursor < 0 || t.String() != text {
		return token{}, refuse(BadResumptionToken, "the resumption token is not one of this repository")
	}
	return t, nil
}

// selectionOf returns the token of a request. For a request without a token, it returns
// a token for the beginning of the list that the request selects.
func (h *Handler) selectionOf(ctx context.Context, args url.Values) (t token, err error) {
	if args.Has("resumptionToken") {
		return parseToken(args.Get("resumptionToken"))
	}
	t = token{Prefix: args.Get("metadataPrefix"), Set: args.Get("set")}
	for name, to := range map[string]*Stamp{"from": &t.From, "until": &t.Until} {
		if text := args.Get(name); text != "" {
			if *to, err = ParseStamp(text); err != nil {
				return t, refuse(BadArgument, "%s: %v", name, err)
			}
		}
	}
	id, err := h.Repository.Identity(ctx)
	switch {
	case err != nil:
		return t, err
	case !t.From.IsZero() && !t.Until.IsZero() && t.From.Day != t.Until.Day:
		return t, refuse(BadArgument, "from and until have different granularities")
	case !t.From.IsZero() && !t.Until.IsZero() && t.From.Time.After(t.Until.Time):
		return t, refuse(BadArgument, "from is later than until")
	case id.Days && (!t.From.IsZero() && !t.From.Day || !t.Until.IsZero() && !t.Until.Day):
		return t, refuse(BadArgument, "datestamps must have a granularity of days")
	}
	if t.Until.Day { // if "until" is a day, records of the whole day are selected
		t.Until = Stamp{Time: t.Until.Time.Add(24*time.Hour - time.Second)}
	}
	return t, h.checkSelection(ctx, &t)
}

func (h *Handler) checkSelection(ctx context.Context, t *token) error {
	formats, err := h.Repository.Formats(ctx, "")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(formats, func(f Format) bool { return f.Prefix == t.Prefix }) {
		return refuse(CannotDisseminateFormat, "the repository has no metadata format %q", t.Prefix)
	}
	if t.Set == "" {
		return nil
	}
	sets, err := h.Repository.Sets(ctx)
	switch {
	case err != nil:
		return err
	case len(sets) == 0:
		return refuse(NoSetHierarchy, "the repository has no sets")
	case !slices.ContainsFunc(sets, func(s Set) bool { return s.Spec == t.Set || strings.HasPrefix(s.Spec, t.Set+":") }):
		return refuse(NoRecordsMatch, "the repository has no set %q", t.Set)
	}
	return nil
}

func (h *Handler) list(ctx context.Context, b *bytes.Buffer, verb Verb, args url.Values) error {
	t, err := h.selectionOf(ctx, args)
	if err != nil {
		return err
	}
	size := cmp.Or(max(h.PageSize, 0), defaultPage)
	fmt.Fprintf(b, "<%s>\n", verb)
	n, next := 0, ""
	s := Selection{Prefix: t.Prefix, Set: t.Set, From: t.From, Until: t.Until}
	for it, err := range h.Repository.List(ctx, s, t.After, verb == VerbRecords) {
		if err != nil {
			return err
		}
		if n == size || b.Len() > maxPageBody {
			next = t.After
			break
		}
		if n++; verb == VerbRecords {
			writeRecord(b, &it.Record)
		} else {
			writeHeader(b, &it.Header)
		}
		t.After = it.Place
	}
	cursor := t.Cursor
	switch t.Cursor += n; {
	case next != "":
		WriteElement(b, "resumptionToken", t.String(), "cursor", fmt.Sprint(cursor))
	case n == 0: // may happen after a resumption token: all remaining records may have left the selection
		return refuse(NoRecordsMatch, "no records match")
	case cursor > 0:
		WriteElement(b, "resumptionToken", "", "cursor", fmt.Sprint(cursor))
	}
	fmt.Fprintf(b, "</%s>\n", verb)
	return nil
}

func writeRecord(b *bytes.Buffer, r *Record) {
	b.WriteString("<record>")
	writeHeader(b, &r.Header)
	if !r.Deleted {
		b.WriteString("<metadata>")
		b.Write(r.Metadata)
		b.WriteString("</metadata>")
	}
	b.WriteString("</record>\n")
}

func writeHeader(b *bytes.Buffer, h *Header) {
	if h.Deleted {
		b.WriteString(`<header status="deleted">`)
	} else {
		b.WriteString("<header>")
	}
	WriteElement(b, "identifier", h.Identifier)
	WriteElement(b, "datestamp", h.Datestamp.String())
	for _, s := range h.Sets {
		WriteElement(b, "setSpec", s)
	}
	b.WriteString("</header>\n")
}

// writeGroup writes an element with child elements. The parameter fields has the name and
// then the text of each child element.
func writeGroup(b *bytes.Buffer, name string, fields ...string) {
	b.WriteString("<" + name + ">")
	for i := 0; i+1 < len(fields); i += 2 {
		WriteElement(b, fields[i], fields[i+1])
	}
	b.WriteString("</" + name + ">\n")
}

// WriteElement writes an element with a text. The parameter attributes has the name and
// then the value of each attribute.
func WriteElement(b *bytes.Buffer, name, text string, attributes ...string) {
	b.WriteByte('<')
	b.WriteString(name)
	for i := 0; i+1 < len(attributes); i += 2 {
		b.WriteByte(' ')
		b.WriteString(attributes[i])
		b.WriteString(`="`)
		escape(b, attributes[i+1])
		b.WriteByte('"')
	}
	b.WriteByte('>')
	escape(b, text)
	b.WriteString("</")
	b.WriteString(name)
	b.WriteByte('>')
}

// send answers with the body in an envelope that repeats the arguments of the request.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, now time.Time, args url.Values, body []byte) {
	var head bytes.Buffer
	head.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<OAI-PMH xmlns="` + Namespace + `" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="` +
		Namespace + ` http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">` + "\n")
	WriteElement(&head, "responseDate", Stamp{Time: now}.String())
	var attributes []string
	for _, name := range []string{"verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken"} {
		if args.Get(name) != "" {
			attributes = append(attributes, name, args.Get(name))
		}
	}
	WriteElement(&head, "request", h.BaseURL, attributes...)
	head.WriteByte('\n')
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Vary", "Accept-Encoding")
	to, finish := io.Writer(w), func() error { return nil }
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Method != http.MethodHead {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // no error: BestSpeed is a valid level
		to, finish = z, z.Close
	}
	for _, part := range [][]byte{head.Bytes(), body, []byte("</OAI-PMH>\n")} {
		if _, err := to.Write(part); err != nil {
			return // the error is ignored: the client has disconnected
		}
	}
	_ = finish() // the error is ignored: the client has disconnected
}

func escape(b *bytes.Buffer, text string) {
	if !strings.ContainsAny(text, "<>&\"'\t\n\r") {
		b.WriteString(text)
		return
	}
	_ = xml.EscapeText(b, []byte(text)) // no error: a write to a Buffer never fails
}
