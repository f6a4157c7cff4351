package discover_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"

	"instep/discover"
	"instep/fetch"
)

func ExampleFind() {
	const document = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:md capability=%q/>
  <url><loc>http://%s%s</loc><rs:md capability=%q/></url>
</urlset>`
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/resourcesync":
			fmt.Fprintf(w, document, "description", r.Host, "/maps/capabilitylist.xml", "capabilitylist")
		case "/maps/capabilitylist.xml":
			fmt.Fprintf(w, document, "capabilitylist", r.Host, "/maps/resourcelist.xml", "resourcelist")
		default:
			io.WriteString(w, "<html>Welcome</html>")
		}
	}))
	defer source.Close()

	ctx := context.Background()
	client, err := fetch.New(fetch.Options{})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := client.TrustSource(ctx, source.URL); err != nil { // it is on loopback
		panic(err)
	}
	found, err := discover.Find(ctx, discover.Finder{Client: client}, source.URL)
	if err != nil {
		panic(err)
	}
	for _, set := range found.Sets {
		fmt.Println(found.Way, set.Name, path.Base(set.ResourceLists[0]))
	}
	// Output: well-known maps resourcelist.xml
}
