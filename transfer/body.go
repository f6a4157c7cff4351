package transfer

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"instep/fetch"
	"instep/harvest"
)

// Body returns the body of a response to a request for the resource w. The caller
// verifies and closes the body. If decode is true, Body removes the content coding.
// page is true if the body is XML, as listed, although the server sent it as text/html.
// If the response cannot be the resource, Body closes it and returns an error. dir is
// the directory for temporary files.
func Body(w *harvest.Resource, resp *fetch.Response, decode bool, dir string) (_ io.ReadCloser, page bool, err error) {
	body := io.Reader(resp.Body)
	if decode {
		if body, err = decoder(CodingOf(resp), body); err != nil {
			return nil, false, errors.Join(fmt.Errorf("%s: %w", resp.URL, err), resp.Body.Close())
		}
		resp.ContentLength = -1 // unknown, because Content-Length is the length of the encoded body
	}
	if page = pageOfXML(w, resp); page {
		file, err := readXML(w, body, dir)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, true, err
		}
		return bodyOf{file.Reader(), file}, true, nil
	}
	if err := Plausible(w, resp); err != nil {
		return nil, false, errors.Join(err, resp.Body.Close())
	}
	return bodyOf{body, resp.Body}, false, nil
}

type bodyOf struct {
	io.Reader
	io.Closer
}

// decoder removes the content coding of a body (RFC 9110 §8.4.1). Reading fails after
// MaxResource decoded bytes.
func decoder(coding string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(coding) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(body)
		return &atMost{z, MaxResource}, err
	case "deflate":
		z, err := zlib.NewReader(body)
		return &atMost{z, MaxResource}, err
	}
	return nil, fmt.Errorf("expected the content coding gzip or deflate, found %q", coding)
}

// atMost is a reader that returns an error after n bytes.
type atMost struct {
	r io.Reader
	n int64
}

func (a *atMost) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if a.n -= int64(n); a.n < 0 {
		return 0, fmt.Errorf("the decoded body has more than the %d bytes allowed", int64(MaxResource))
	}
	return n, err
}
