package transfer

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"instep/fetch"
	"instep/harvest"
	"instep/internal/spool"
)

// maxXML is the maximum size in bytes of a resource that is parsed as XML because it
// was sent as text/html.
const maxXML = CheckpointBytes

// maxDepth is the maximum accepted nesting of XML elements.
const maxDepth = 1_000

// pageOfXML reports whether a response with the media type text/html may be the XML
// resource w, because some servers send XML with that type. The Source must list a
// length, and the server must not state another length.
func pageOfXML(w *harvest.Resource, resp *fetch.Response) bool {
	n := w.Length.Int64()
	return isInstead(w, resp) && isXML(w.Type) && w.Length.Known() && n <= maxXML && (resp.ContentLength < 0 || resp.ContentLength == n)
}

func isXML(mediaType string) bool {
	t, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (t == "application/xml" || t == "text/xml" || strings.HasSuffix(t, "+xml"))
}

// readXML copies the body of an XML resource that was sent as text/html to a file in
// dir, or to memory if the body is short. It returns an error if the body is not
// well-formed XML or is an HTML page, since a page that blocks programs may happen to
// have the right length. The caller closes the file.
func readXML(w *harvest.Resource, body io.Reader, dir string) (*spool.File, error) {
	f := spool.NewFile(dir, 0)
	_, err := io.Copy(f, io.LimitReader(body, w.Length.Int64()+1)) // one byte more than listed, so that the caller's verification detects a body that is too long
	if err == nil {
		err = checkXML(f.Reader())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: the server sent an HTML page instead of the listed type %q: %w", w.URI, w.Type, err), f.Close())
	}
	return f, nil
}

// checkXML returns an error unless r has one well-formed XML document whose root
// element is not html.
func checkXML(r io.Reader) error {
	d := xml.NewDecoder(r)
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return byByte{in}, nil }
	for depth, roots := 0, 0; ; {
		token, err := d.Token()
		switch token := token.(type) {
		case xml.StartElement:
			if depth == 0 && strings.EqualFold(token.Name.Local, "html") {
				return errors.New("its root element is html")
			}
			if depth == 0 {
				roots++
			}
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			if depth == 0 && len(bytes.TrimSpace(token)) > 0 {
				return errors.New("it has text outside its root element")
			}
		}
		switch {
		case errors.Is(err, io.EOF) && roots == 1:
			return nil
		case err != nil:
			return fmt.Errorf("it is not well-formed XML: %w", err)
		case roots > 1, depth > maxDepth:
			return errors.New("it is not well-formed XML")
		}
	}
}

// byByte decodes an unknown encoding as if each byte were a character. Encodings with
// one byte per character have the same bytes for XML markup, so checkXML reads the
// markup correctly. Text in an encoding with several bytes per character may be refused
// as not well-formed.
type byByte struct{ r io.Reader }

func (b byByte) Read(p []byte) (n int, err error) {
	in := make([]byte, len(p)/2)
	k, err := b.r.Read(in)
	for _, c := range in[:k] {
		n += utf8.EncodeRune(p[n:], rune(c))
	}
	return n, err
}
