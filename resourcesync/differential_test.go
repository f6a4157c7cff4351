package resourcesync

import (
	"bytes"
	"encoding/xml"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tokensOf reads a document with encoding/xml, in the strictest way it knows,
// and returns what a Decoder should find in it.
func tokensOf(doc string) (locs []string, attrs map[string]int, err error) {
	attrs = make(map[string]int)
	dec := xml.NewDecoder(strings.NewReader(doc))
	var path []string
	want := nsSitemap + " urlset>" + nsSitemap + " url>" + nsSitemap + " loc"
	wantIndex := nsSitemap + " sitemapindex>" + nsSitemap + " sitemap>" + nsSitemap + " loc"
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return locs, attrs, nil
		}
		if err != nil {
			return nil, nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			path = append(path, tok.Name.Space+" "+tok.Name.Local)
			if strings.Join(path, ">") == want || strings.Join(path, ">") == wantIndex {
				locs = append(locs, "")
			}
			if tok.Name.Space == nsRS {
				for _, a := range tok.Attr {
					if a.Name.Space == "" && a.Name.Local != "xmlns" {
						attrs[a.Name.Local+"="+strings.Join(strings.Fields(a.Value), " ")]++
					}
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if p := strings.Join(path, ">"); p == want || p == wantIndex {
				locs[len(locs)-1] += string(tok)
			}
		}
	}
}

// attrsOf counts the attributes of ResourceSync that a document was read with.
func attrsOf(h Header, entries []Entry) map[string]int {
	got := make(map[string]int)
	add := func(name, value string) {
		if value != "" {
			got[name+"="+value]++
		}
	}
	common := func(ds Digests, n Length, mediaType, encoding, path string) {
		length, _ := n.MarshalText()
		add("hash", ds.String())
		add("length", string(length))
		add("type", mediaType)
		add("encoding", encoding)
		add("path", path)
	}
	all := append([]Entry{{Metadata: h.Metadata, Links: h.Links}}, entries...)
	for _, e := range all {
		add("capability", string(e.Capability))
		add("change", string(e.Change))
		for name, d := range map[string]Datetime{"at": e.At, "completed": e.Completed, "from": e.From, "until": e.Until, "datetime": e.Metadata.Datetime} {
			add(name, d.String())
		}
		common(e.Digests, e.Length, e.Type, e.Encoding, e.Path)
		for _, l := range e.Links {
			add("rel", l.Rel)
			add("href", l.Href)
			add("modified", l.Modified.String())
			if l.Pri > 0 {
				add("pri", strings.Repeat("1", l.Pri))
			}
			common(l.Digests, l.Length, l.Type, l.Encoding, l.Path)
		}
	}
	return got
}

func TestAgreesWithEncodingXML(t *testing.T) {
	for name, doc := range kinds(t) {
		header, entries, _, err := decode(doc)
		if err != nil {
			t.Fatal(err)
		}
		locs, attrs, err := tokensOf(doc)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Loc)
		}
		if diff := cmp.Diff(got, locs); diff != "" {
			t.Errorf("%s: locs (-ours +theirs):\n%s", name, diff)
		}
		if diff := cmp.Diff(attrsOf(header, entries), attrs); diff != "" {
			t.Errorf("%s: attributes (-ours +theirs):\n%s", name, diff)
		}
	}
}

// TestMutationsAgreeWithEncodingXML damages documents at random: what a Decoder
// accepts, encoding/xml must accept too, with the same locs. The other way round
// it need not be so.
func TestMutationsAgreeWithEncodingXML(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"<", ">", "/", "\"", "'", "&", "&amp;", "&#65;", "]]>", "<!--", "-->", "<![CDATA[", "<a>", "</a>", "<?p ?>", " ", "\n", "=", ":", "x", "\x00", "é", "\xff"}
	accepted := 0
	for name, doc := range kinds(t) {
		for range 1000 {
			b := []byte(doc)
			for range 1 + rng.IntN(2) {
				i := rng.IntN(len(b))
				piece := pieces[rng.IntN(len(pieces))]
				b = slices.Replace(b, i, min(len(b), i+rng.IntN(3)), []byte(piece)...)
			}
			var got []string
			bad := false
			for e, err := range NewDecoder(bytes.NewReader(b)).Entries() {
				bad = bad || err != nil
				got = append(got, e.Loc)
			}
			if bad {
				continue
			}
			accepted++
			want, _, err := tokensOf(string(b))
			if err != nil {
				t.Errorf("%s: accepted here, refused by encoding/xml: %v\n%s", name, err, b)
			}
			for i := range want {
				want[i] = strings.Trim(want[i], xmlSpace)
			}
			if diff := cmp.Diff(got, want, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: locs (-ours +theirs):\n%s\n%s", name, diff, b)
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d documents were accepted: nothing was compared", accepted)
	}
}
