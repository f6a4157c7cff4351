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

// maxXML is the largest resource, in bytes, that is examined because it was served as a
// page.
const maxXML = CheckpointBytes

// maxDepth is how deep its elements may be nested.
const maxDepth = 1_000

// pageOfXML reports whether an answer is refused by Plausible for its media type alone, although it
// may be the resource all the same: XML that some servers call text/html. Its length has to be known,
// and be right.
func pageOfXML(w *harvest.Resource, resp *fetch.Response) bool {
	n := w.Length.Int64()
	return isInstead(w, resp) && isXML(w.Type) && w.Length.Known() && n <= maxXML && (resp.ContentLength < 0 || resp.ContentLength == n)
}

func isXML(mediaType string) bool {
	t, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (t == "application/xml" || t == "text/xml" || strings.HasSuffix(t, "+xml"))
}

// readXML reads a body that pageOfXML accepted, and returns it to be read again. It is an
// error if it is not well-formed XML or is a page: that of a bot wall may have the right
// length too. The caller closes the file, which is in dir once it is long.
func readXML(w *harvest.Resource, body io.Reader, dir string) (*spool.File, error) {
	f := spool.NewFile(dir, 0)
	_, err := io.Copy(f, io.LimitReader(body, w.Length.Int64()+1)) // a longer body is detected when it is verified
	if err == nil {
		err = checkXML(f.Reader())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: a page answered where a resource of type %q was listed: %w", w.URI, w.Type, err), f.Close())
	}
	return f, nil
}

// checkXML returns an error unless r has one well-formed document whose root is not that of a page.
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
				return errors.New("it has text beside its root element")
			}
		}
		switch {
		case errors.Is(err, io.EOF) && roots == 1:
			return nil
		case err != nil:
			return fmt.Errorf("it is no well-formed XML: %w", err)
		case roots > 1, depth > maxDepth:
			return errors.New("it is no well-formed XML")
		}
	}
}

// byByte decodes text of an encoding in which each byte is a character, without knowing
// which: only the marks of XML matter, which those encodings share. Text of another kind is
// not well-formed in it.
type byByte struct{ r io.Reader }

func (b byByte) Read(p []byte) (n int, err error) {
	in := make([]byte, len(p)/2)
	k, err := b.r.Read(in)
	for _, c := range in[:k] {
		n += utf8.EncodeRune(p[n:], rune(c))
	}
	return n, err
}
