package main

import (
	"context"
	"errors"
	"log"
	"os"

	"instep/destination"
	"instep/fetch"
	"instep/mirror"
)

func main() { // usage: destination SOURCE DIR [PRIVATE-HOST:PORT...]
	ctx := context.Background()
	client, err := fetch.New(fetch.Options{AllowPrivate: os.Args[3:]})
	m, opened := mirror.Open(ctx, mirror.Options{Dir: os.Args[2], Create: true})
	if err := errors.Join(err, opened); err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	d := destination.Destination{Source: os.Args[1], Mirror: m, Client: client}
	report, err := d.Sync(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, set := range report.Sets {
		log.Printf("%s: %d created, %d updated, %d deleted", set.Set, set.Created, set.Updated, set.Deleted)
	}
}
