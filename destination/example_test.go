package destination_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"path"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/fetch"
	"instep/internal/sim"
)

// museum serves a Source with three resources.
func museum() *httptest.Server {
	model, err := sim.NewModel(context.Background(), sim.Config{
		Resources: 3, Size: sim.Size{Kind: sim.Fixed, Low: 12}, Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	s, err := sim.NewSource(sim.Options{
		Model: model, Bucket: blob.NewMem(), Staging: blob.NewMem(), BaseURL: "http://" + server.Listener.Addr().String() + "/",
	})
	if err == nil {
		err = s.Publish(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
	server.Config.Handler = s
	server.Start()
	return server
}

// A harvester that has a store of its own.
func ExampleDestination_Changes() {
	source := museum()
	defer source.Close()
	ctx := context.Background()
	client, err := fetch.New(fetch.Options{UserAgent: "harvester/1.0 (+https://harvester.example.org/)"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.TrustSource(ctx, source.URL); err != nil { // it may be on a private address
		log.Fatal(err)
	}

	dest := &destination.Destination{Client: client}
	var since time.Time // everything; the next time: the latest Changed that was told
	for change, err := range dest.Changes(ctx, source.URL, since) {
		if err != nil {
			log.Fatal(err)
		}
		body, err := dest.Open(ctx, change.Resource)
		if err != nil {
			log.Fatal(err)
		}
		n, err := io.Copy(io.Discard, body) // fails if these are not the bytes that are listed
		if err != nil {
			log.Fatal(err)
		}
		_ = body.Close()
		fmt.Println(change.Change, path.Base(change.URI), change.Type, n)
	}
	// Output:
	// created 00000000.txt text/plain 12
	// created 00000001.csv text/csv 12
	// created 00000002.bin application/octet-stream 12
}
