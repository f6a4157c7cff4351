package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"instep/resourcesync"
)

// WEKO, as other repositories, serves the XML of its records as text/html; its Resource List calls it
// XML and gives the length. What has that length is taken if it is XML and no page.
func TestXMLServedAsAPage(t *testing.T) {
	const record = `<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- exported -->
<jpcoar:jpcoar xmlns:jpcoar="https://github.com/JPCOAR/schema/blob/master/1.0/"><title>R\xe9sum\xe9</title></jpcoar:jpcoar>
`
	for _, c := range []struct {
		name, body, as, listed string
		length                 int // 0: that of the body; -1: none is listed
		taken                  bool
	}{
		{"a record", record, "text/html; charset=utf-8", "application/xml", 0, true},
		{"a feed", `<feed xmlns="http://www.w3.org/2005/Atom"/>`, "text/html", "application/atom+xml", 0, true},
		{"a wall of the same length", "<html><body>Are you human?</body></html>", "text/html", "text/xml", 0, false},
		{"a wall in XHTML", `<?xml version="1.0"?><HTML xmlns="http://www.w3.org/1999/xhtml"><body/></HTML>`, "application/xhtml+xml", "text/xml", 0, false},
		{"a wall that is no XML", "<!doctype html><p>Are you human?", "text/html", "text/xml", 0, false},
		{"a text", "Are you human?", "text/html", "text/xml", 0, false},
		{"a record that is cut", record[:150], "text/html", "text/xml", 0, false},
		{"two records", "<a/><a/>", "text/html", "text/xml", 0, false},
		{"nested too deep", strings.Repeat("<a>", 2000) + strings.Repeat("</a>", 2000), "text/html", "text/xml", 0, false},
		{"another length", record, "text/html", "text/xml", len(record) + 1, false},
		{"no length", record, "text/html", "text/xml", -1, false},
		{"listed as something else", record, "text/html", "application/pdf", 0, false},
		{"listed as what it is served as", record, "text/html", "text/html", 0, true},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %t", c.name, chunked), func(t *testing.T) {
				s := newSource(t)
				s.put("/record", []byte(c.body))
				s.answer("/record", func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", c.as)
					if chunked {
						_ = http.NewResponseController(w).Flush()
					}
					fmt.Fprint(w, c.body)
				})
				e := resourcesync.Entry{Loc: s.uri("/record"), Metadata: resourcesync.Metadata{Type: c.listed}}
				switch {
				case c.length == 0:
					e.Length = resourcesync.Bytes(int64(len(c.body)))
				case c.length > 0:
					e.Length = resourcesync.Bytes(int64(c.length))
				}
				s.listEntries(1, e)
				s.offer("/list.xml", "")
				m := newMirror(t, s)
				rep, err := m.sync()
				if err != nil || (rep.Failed == 0) != c.taken {
					t.Fatalf("got %+v, %v; want it taken: %t", rep, err, c.taken)
				}
				if c.taken {
					m.wantFiles("/record")
				} else {
					m.wantFiles()
				}
				notes := strings.Join(m.notes, "\n")
				if said := strings.Contains(notes, "1 resource came as text/html and is listed as XML, "+s.uri("/record")); said != (c.taken && c.listed != "text/html") {
					t.Errorf("notes: got %q", notes)
				}
			})
		}
	}
}
