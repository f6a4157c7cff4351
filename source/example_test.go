package source

import (
	"context"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"testing/fstest"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

// A repository with its own database passes its resources as iterators and keeps
// the Journal itself.
func ExamplePublisher_Publish() {
	at := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	p := Publisher{
		Bucket: blob.NewMem(), Staging: blob.NewMem(), Journal: NewJournal(blob.NewMem()),
		BaseURL: "https://museum.example.org/", UUID: "6f6d0b8a-7a58-4b0c-9a35-1d3f6f1b2c11",
		Now: func() time.Time { return at },
	}
	painting := resourcesync.Entry{Loc: "https://museum.example.org/painting.jpg"}
	painting.Length, painting.Type = resourcesync.Bytes(8876), "image/jpeg"
	pub, err := p.Publish(context.Background(), Update{
		Snapshot: &Snapshot{At: at, Resources: func(yield func(resourcesync.Entry, error) bool) { yield(painting, nil) }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range pub.Written {
		fmt.Println(key)
	}
	// Output:
	// resourcesync/publication.json
	// resourcesync/lists/1/resourcelist.xml
	// resourcesync/resourcelist.xml
	// sitemap.xml
	// resourcesync/set.html
	// resourcesync/about.html
	// resourcesync/capabilitylist.xml
	// resourcesync/description.xml
	// .well-known/resourcesync
}

func ExampleNewHandler() {
	content := fstest.MapFS{"painting.txt": {Data: []byte("oil on canvas")}} // os.Root.FS of a directory, in earnest
	h := NewHandler(HandlerOptions{Dirs: []fs.FS{content}, Now: time.Now})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/painting.txt", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Body)
	// Output: 200 text/plain oil on canvas
}
