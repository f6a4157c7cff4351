package oaipmh

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"

	"instep/fetch"
)

// Client sends requests to a repository. Fetch and BaseURL are required. A Client is
// not safe for concurrent use.
type Client struct {
	Fetch     *fetch.Client
	BaseURL   string // base URL of the repository; may contain a query
	MaxAnswer int64  // largest response in bytes; 0 means the constant MaxAnswer
	// Observe is called for each tolerated fault of the repository; may be nil.
	Observe func(Note)

	Requests int // number of requests so far, without repeated ones

	wire bytes.Buffer // the latest response, decompressed
}

// Selection says which records to request (§2.7). Prefix is required.
type Selection struct {
	Prefix      string // metadataPrefix
	Set         string // setSpec of a set; "" selects the records of all sets
	From, Until Stamp  // first and last datestamp; zero means no limit
}

func (s Selection) values(days bool) url.Values {
	v := url.Values{"metadataPrefix": {s.Prefix}}
	for name, value := range map[string]string{"set": s.Set, "from": s.From.In(days), "until": s.Until.In(days)} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// ErrAnswer means that a response is not an OAI-PMH response, or has a fault that cannot
// be tolerated.
var ErrAnswer = errors.New("not a usable OAI-PMH response")

// Identify requests the description of the repository (§4.2).
func (c *Client) Identify(ctx context.Context) (Identity, error) {
	p, err := c.ask(ctx, VerbIdentify, nil)
	if err != nil {
		return Identity{}, err
	}
	if p.identity == nil {
		return Identity{}, fmt.Errorf("%s: %w: the element Identify is missing", p.URL, ErrAnswer)
	}
	p.identity.Date = p.Date
	return *p.identity, nil
}

// Formats returns the metadata formats of the repository (§4.4).
func (c *Client) Formats(ctx context.Context) ([]Format, error) {
	p, err := c.ask(ctx, VerbFormats, nil)
	if err != nil {
		return nil, err
	}
	return p.formats, nil
}

// Record requests one record (§4.1). If the repository does not have the record, the
// error is IDDoesNotExist.
func (c *Client) Record(ctx context.Context, identifier, prefix string) (Record, error) {
	p, err := c.ask(ctx, VerbRecord, url.Values{"identifier": {identifier}, "metadataPrefix": {prefix}})
	switch {
	case err != nil:
		return Record{}, err
	case len(p.Bad) > 0:
		return Record{}, p.Bad[0].Err
	case len(p.Records) != 1 || p.Records[0].Identifier != identifier:
		return Record{}, fmt.Errorf("%s: %w: expected only the record %q", p.URL, ErrAnswer, identifier)
	}
	return p.Records[0], nil
}

// Records yields the records of a selection (§4.5). If an error comes with the identifier
// of a record, only that record cannot be used, and the list continues. Any other error
// ends the list. A record is valid until the next one is yielded.
func (c *Client) Records(ctx context.Context, s Selection) iter.Seq2[Record, error] {
	return c.list(ctx, VerbRecords, s)
}

// Headers yields the headers of the records of a selection (§4.3). It yields the same
// errors as Records.
func (c *Client) Headers(ctx context.Context, s Selection) iter.Seq2[Header, error] {
	return func(yield func(Header, error) bool) {
		for r, err := range c.list(ctx, VerbIdentifiers, s) {
			if !yield(r.Header, err) {
				return
			}
		}
	}
}

func (c *Client) list(ctx context.Context, verb Verb, s Selection) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for p, err := range c.pages(ctx, verb, s.values(s.From.Day || s.Until.Day), "") {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range p.Records {
				if !yield(r, nil) {
					return
				}
			}
			for _, b := range p.Bad {
				if !yield(Record{Header: Header{Identifier: b.Identifier}}, b.Err) {
					return
				}
			}
		}
	}
}

// pages yields the responses of a list. The first request has the given token or, if
// token is "", the arguments of the selection. If the repository answers NoRecordsMatch,
// the list is empty. Any other error ends the list.
func (c *Client) pages(ctx context.Context, verb Verb, selection url.Values, token string) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		var g guard
		args := selection
		if token != "" {
			args = url.Values{"resumptionToken": {token}}
		}
		for {
			p, err := c.ask(ctx, verb, args)
			if p != nil && errors.Is(err, NoRecordsMatch) {
				p.Token, err = "", nil
			}
			if err == nil {
				err = g.check(p)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(p, nil) || p.Token == "" {
				return
			}
			args = url.Values{"resumptionToken": {p.Token}}
		}
	}
}

// ask sends a request, and reports tolerated faults of the response to Observe. For a
// protocol error it returns both the Page and the error.
func (c *Client) ask(ctx context.Context, verb Verb, args url.Values) (*Page, error) {
	at, err := c.requestURL(verb, args)
	if err != nil {
		return nil, err
	}
	c.Requests++
	p, err := c.page(ctx, verb, at)
	if p == nil {
		return nil, err
	}
	for _, n := range p.Notes {
		if c.Observe != nil {
			c.Observe(n)
		}
	}
	return p, err
}

// page requests a URL and parses the response. Unlike ask it does not call Observe.
func (c *Client) page(ctx context.Context, verb Verb, at string) (*Page, error) {
	d := dirt{}
	text, err := c.load(ctx, at, d)
	if err != nil {
		return nil, err
	}
	p, err := parse(text, verb, at, d)
	if err != nil && p == nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return p, err
}

// requestURL adds the arguments of a request to those in the query of the base URL.
func (c *Client) requestURL(verb Verb, args url.Values) (string, error) {
	u, err := fetch.Parse(c.BaseURL)
	if err != nil {
		return "", err
	}
	query := "verb=" + string(verb)
	if len(args) > 0 {
		query += "&" + args.Encode()
	}
	if own := strings.Trim(u.RawQuery, "&"); own != "" {
		query = own + "&" + query
	}
	u.RawQuery = query
	return u.String(), nil
}

const accept = "text/xml, application/xml;q=0.9, */*;q=0.1"

// load requests a URL, repeats the request after temporary errors, and corrects the
// response to legal XML.
func (c *Client) load(ctx context.Context, at string, d dirt) ([]byte, error) {
	limit := cmp.Or(max(c.MaxAnswer, 0), MaxAnswer)
	for failures := 1; ; failures++ {
		err := c.transfer(ctx, at, limit)
		if err == nil {
			break
		}
		if !c.Fetch.Again(ctx, failures, err) {
			return nil, err
		}
	}
	raw := c.wire.Bytes()
	if head := raw[:min(len(raw), fetch.PageHead)]; fetch.IsWall(head) {
		return nil, fetch.Blocked(at, head)
	} else if fetch.IsPage(head) {
		return nil, fmt.Errorf("%s: %w: the server sent an HTML page", at, ErrAnswer)
	}
	text, err := clean(raw, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", at, ErrAnswer, err)
	}
	return text, nil
}

// transfer stores the decompressed response in the field wire.
func (c *Client) transfer(ctx context.Context, at string, limit int64) error {
	c.wire.Reset()
	resp, err := c.Fetch.Get(ctx, fetch.Request{URL: at, Accept: accept, MaxBytes: limit, Gzip: true})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	switch coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return fmt.Errorf("%s: %w: the response is not valid gzip: %w", at, ErrAnswer, err)
		}
		body = unpacked
	default:
		return fmt.Errorf("%s: %w: the response has the content coding %q, which was not requested", at, ErrAnswer, coding)
	}
	n, err := c.wire.ReadFrom(io.LimitReader(body, limit+1))
	if _, ok := errors.AsType[*fetch.Error](err); err != nil && !ok && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w: %w", at, ErrAnswer, err)
	}
	if err == nil && n > limit {
		err = &fetch.Error{Op: "read", URL: at, Kind: fetch.TooLarge, Msg: fmt.Sprintf("expected a response of at most %d bytes, got more", limit), Hint: fetch.LargerDocuments}
	}
	return err
}
