package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"instep/fetch"
)

func ExampleClient_Get() {
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hello.txt" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, "hello")
	}))
	defer source.Close()

	ctx := context.Background()
	client, err := fetch.New(fetch.Options{Version: "1.0"})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := client.TrustSource(ctx, source.URL); err != nil { // it is on loopback
		panic(err)
	}
	resp, err := client.Get(ctx, fetch.Request{URL: source.URL + "/hello.txt"})
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Printf("%s %v\n", body, err)

	_, err = client.Get(ctx, fetch.Request{URL: source.URL + "/gone"})
	fmt.Println(errors.Is(err, fetch.NotFound))
	// Output:
	// hello <nil>
	// true
}
