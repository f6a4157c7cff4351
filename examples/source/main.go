package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"instep/site"
	"instep/source"
)

func main() { // usage: source DIR STATE BASE-URL HOST:PORT
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := site.Open(ctx, site.Options{Dir: os.Args[1], State: os.Args[2], BaseURL: os.Args[3],
		Observe: func(r site.Report, err error) { log.Println(r.Documents, r.Failures, err) }})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	server := source.NewServer(s)
	server.Addr = os.Args[4]
	go func() { log.Fatal(server.ListenAndServe()) }()
	if err := s.Watch(ctx); err != nil {
		log.Print(err)
	}
}
