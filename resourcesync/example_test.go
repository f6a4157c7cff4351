package resourcesync_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"instep/resourcesync"
)

const changeList = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://museum.example.org/capabilitylist.xml"/>
  <rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>
  <url>
    <loc>https://museum.example.org/vase.jpg</loc>
    <rs:md change="created" datetime="2024-05-01T09:30:00Z" length="48211" type="image/jpeg"/>
  </url>
  <url>
    <loc>https://museum.example.org/bowl.jpg</loc>
    <rs:md change="deleted" datetime="2024-05-01 10:00:00"/>
  </url>
</urlset>
`

func ExampleDecoder() {
	d := resourcesync.NewDecoder(strings.NewReader(changeList), resourcesync.WithNotes(func(n resourcesync.Note) {
		fmt.Printf("line %d: %s\n", n.Line, n.Msg)
	}))
	h, err := d.Header()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Capability, "since", h.From)
	for e, err := range d.Entries() {
		if err != nil {
			log.Fatal(err) // the document is not complete
		}
		fmt.Println(e.Metadata.Datetime, e.Change, e.Loc)
	}
	// Output:
	// changelist since 2024-05-01T00:00:00Z
	// 2024-05-01T09:30:00Z created https://museum.example.org/vase.jpg
	// line 12: datetime "2024-05-01 10:00:00": expected T after the day; read as 2024-05-01T10:00:00Z
	// 2024-05-01T10:00:00Z deleted https://museum.example.org/bowl.jpg
}

// Only habits that the caller knows of are read besides what the standard allows.
func ExampleWithTolerance() {
	policy := resourcesync.Tolerance(resourcesync.Strict).And(resourcesync.QuirkDatetimeZone)
	d := resourcesync.NewDecoder(strings.NewReader(changeList), resourcesync.WithTolerance(policy))
	for e, err := range d.Entries() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Change, e.Loc)
	}
	// Output:
	// created https://museum.example.org/vase.jpg
	// deleted https://museum.example.org/bowl.jpg
}

// A document of 1.0 gives the time of a change as lastmod.
func ExampleAsDialect() {
	const doc = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
	        xmlns:rs="http://www.openarchives.org/rs/terms/">
	  <rs:md capability="changelist" from="2014-05-01T00:00:00Z"/>
	  <url>
	    <loc>https://museum.example.org/bowl.jpg</loc>
	    <lastmod>2014-05-01T10:00:00Z</lastmod>
	    <rs:md change="deleted"/>
	  </url>
	</urlset>`
	d := resourcesync.NewDecoder(strings.NewReader(doc), resourcesync.AsDialect(resourcesync.Dialect10))
	for e, err := range d.Entries() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Change, e.Metadata.Datetime, e.LastMod.IsZero())
	}
	// Output: deleted 2014-05-01T10:00:00Z true
}

func ExampleDecoder_Entries() {
	cut := strings.NewReader(changeList[:len(changeList)/2])
	for _, err := range resourcesync.NewDecoder(cut).Entries() {
		if errors.Is(err, resourcesync.Incomplete) {
			fmt.Println("nothing must be deleted by this list")
		}
	}
	// Output:
	// nothing must be deleted by this list
}

func ExampleEncoder() {
	enc, err := resourcesync.NewEncoder(os.Stdout, resourcesync.Header{
		Metadata: resourcesync.Metadata{
			Capability: resourcesync.CapabilityResourceList,
			At:         resourcesync.DatetimeOf(time.Date(2024, 5, 1, 3, 0, 0, 0, time.UTC)),
		},
		Links: []resourcesync.Link{{Rel: "up", Href: "https://museum.example.org/capabilitylist.xml"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	h := resourcesync.NewHasher(resourcesync.MD5)
	io.WriteString(h, "abc")
	err = enc.Encode(resourcesync.Entry{
		Loc: "https://museum.example.org/label.txt",
		Metadata: resourcesync.Metadata{
			Digests: h.Digests(), Length: resourcesync.Bytes(3), Type: "text/plain",
		},
	})
	if err != nil { // or begin the next document if it is ErrFull
		log.Fatal(err)
	}
	if err := enc.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	//   <rs:ln rel="up" href="https://museum.example.org/capabilitylist.xml"/>
	//   <rs:md capability="resourcelist" at="2024-05-01T03:00:00Z"/>
	//   <url>
	//     <loc>https://museum.example.org/label.txt</loc>
	//     <rs:md hash="md5:900150983cd24fb0d6963f7d28e17f72" length="3" type="text/plain"/>
	//   </url>
	// </urlset>
}

func ExampleNewVerifyReader() {
	ds, err := resourcesync.ParseDigests("md5:900150983cd24fb0d6963f7d28e17f72")
	if err != nil {
		log.Fatal(err)
	}
	_, err = io.Copy(io.Discard, resourcesync.NewVerifyReader(strings.NewReader("abd"), 3, ds))
	if mismatch, ok := errors.AsType[*resourcesync.MismatchError](err); ok {
		fmt.Println(mismatch.What, "is not", mismatch.Want)
	}
	// Output:
	// md5 is not md5:900150983cd24fb0d6963f7d28e17f72
}

func ExampleParseDatetime() {
	may, err := resourcesync.ParseDatetime("2024-05")
	if err != nil {
		log.Fatal(err)
	}
	day, err := resourcesync.ParseDatetime("2024-05-31T23:30:00-02:00")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(may, may.Time().Format(time.DateOnly), may.End().Format(time.DateOnly), day.After(may))
	// Output:
	// 2024-05 2024-05-01 2024-06-01 true
}

// page is a document that is kept in memory.
type page struct{ strings.Builder }

func (*page) Commit() error { return nil }
func (*page) Discard()      {}

func ExampleSeries() {
	documents := make(map[int]*page)
	series := resourcesync.Series{
		Header: resourcesync.Header{
			Metadata: resourcesync.Metadata{
				Capability: resourcesync.CapabilityResourceList,
				At:         resourcesync.DatetimeOf(time.Date(2024, 5, 1, 3, 0, 0, 0, time.UTC)),
			},
			Links: []resourcesync.Link{{Rel: "up", Href: "https://museum.example.org/capabilitylist.xml"}},
		},
		URI: func(part int) string {
			if part == 0 {
				return "https://museum.example.org/resourcelist.xml"
			}
			return fmt.Sprintf("https://museum.example.org/resourcelist-%d.xml", part)
		},
		Create: func(part int) (resourcesync.Draft, error) { // a file, usually
			documents[part] = new(page)
			return documents[part], nil
		},
	}
	parts, err := series.Encode(func(yield func(resourcesync.Entry, error) bool) {
		for i := range 60_000 {
			if !yield(resourcesync.Entry{Loc: fmt.Sprintf("https://museum.example.org/object/%d", i)}, nil) {
				return
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range parts {
		fmt.Println(series.URI(p.Number), "has", p.Entries, "entries")
	}
	fmt.Print(documents[0])
	// Output:
	// https://museum.example.org/resourcelist-1.xml has 50000 entries
	// https://museum.example.org/resourcelist-2.xml has 10000 entries
	// https://museum.example.org/resourcelist.xml has 2 entries
	// <?xml version="1.0" encoding="UTF-8"?>
	// <sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
	//   <rs:ln rel="up" href="https://museum.example.org/capabilitylist.xml"/>
	//   <rs:md capability="resourcelist" at="2024-05-01T03:00:00Z"/>
	//   <sitemap>
	//     <loc>https://museum.example.org/resourcelist-1.xml</loc>
	//     <rs:md at="2024-05-01T03:00:00Z"/>
	//   </sitemap>
	//   <sitemap>
	//     <loc>https://museum.example.org/resourcelist-2.xml</loc>
	//     <rs:md at="2024-05-01T03:00:00Z"/>
	//   </sitemap>
	// </sitemapindex>
}
