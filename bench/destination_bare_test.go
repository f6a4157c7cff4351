//go:build unix

package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// bareSmall measures what no program in Go can do without: a request for each file,
// sha-256, a file written, and all of it durable at the end. It reads no list, compares
// with nothing, keeps no state, and what it has done before a power cut is anybody's guess.
func (s *site) bareSmall() (spent, error) {
	dir, err := s.target(smallSet, "bare")
	if err != nil {
		return spent{}, err
	}
	names, err := s.names(smallSet)
	if err != nil {
		return spent{}, err
	}
	begin := time.Now()
	if err := s.getBare(names, dir); err != nil {
		return spent{}, err
	}
	_, err = output(exec.Command("sync", "-f", dir))
	return spent{Seconds: time.Since(begin).Seconds()}, err
}

func (s *site) getBare(names []string, dir string) error {
	const workers = 32
	transport := &http.Transport{MaxConnsPerHost: workers, MaxIdleConnsPerHost: workers, DisableCompression: true, ReadBufferSize: 32 << 10}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	work, ctx := errgroup.WithContext(context.Background())
	next := make(chan string)
	work.Go(func() error {
		defer close(next)
		for _, name := range names {
			select {
			case next <- name:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	var made sync.Map
	for range workers {
		work.Go(func() error {
			buf := make([]byte, 32<<10)
			for name := range next {
				if err := bareGet(client, s.base(smallSet)+name, filepath.Join(dir, name), buf, &made); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return work.Wait()
}

// bareGet copies what fits into buf. made has the directories that are there.
func bareGet(client *http.Client, uri, name string, buf []byte, made *sync.Map) error {
	resp, err := client.Get(uri)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 || resp.ContentLength > int64(len(buf)) {
		return fmt.Errorf("%s: %s, %d bytes", uri, resp.Status, resp.ContentLength)
	}
	body := buf[:resp.ContentLength]
	if _, err := io.ReadFull(resp.Body, body); err != nil {
		return err
	}
	_ = sha256.Sum256(body)
	dir := filepath.Dir(name)
	if _, there := made.Load(dir); !there {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		made.Store(dir, true)
	}
	return os.WriteFile(name, body, 0o644)
}
