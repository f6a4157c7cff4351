package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"instep/source"
)

const serveHelp = `Serve answers GET and HEAD for a published site with the headers that harvesters and
browsers need: media types, ETag and conditional requests, ranges, the Link to the
Capability List, and a policy that keeps served pages from acting for this host.

Several directories are laid over each other: the first that has a path answers, for
content here and documents in the --out of publish. A site published for a base URL
with a path is served below that path. Dotfiles are never served.`

func (a *app) serveCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "serve DIR...",
		Short: "serve a published site",
		Long:  serveHelp,
		Example: `  instep serve ./collection
  instep serve ./collection ./documents --addr 127.0.0.1:8080`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("DIR is missing (see %s --help)", cmd.CommandPath())
			}
			return a.serve(cmd.Context(), args, addr)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "listen on this `HOST:PORT`")
	return cmd
}

func (a *app) serve(ctx context.Context, dirs []string, addr string) error {
	site, err := openSite(dirs)
	if err != nil {
		return err
	}
	defer site.close()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	url := "http://" + ln.Addr().String() + site.prefix
	a.out.record(record{Type: "status", Addr: ln.Addr().String(), URI: url})
	a.out.line("Serving %s (end with Ctrl-C)", url)
	err = a.serveUntil(ctx, ln, site)
	if err == nil {
		a.out.end(summary{Status: "clean"}, "Stopped.")
	}
	return err
}

// stopTime is how long answers under way may take once the server is told to stop.
const stopTime = 4 * time.Second

// serveUntil serves until ctx ends. A server that was told to stop did not fail.
func (a *app) serveUntil(ctx context.Context, ln net.Listener, site *site) error {
	srv := source.NewServer(source.NewHandler(source.HandlerOptions{
		Dirs: site.dirs, Prefix: site.prefix, Now: a.now,
		Report: func(err error) { a.out.warn(record{Message: err.Error()}) },
	}))
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		_ = srv.Close() // answers that take longer are cut
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// rootFS is os.Root.FS for names of any bytes.
type rootFS struct{ root *os.Root }

func (f rootFS) Open(name string) (fs.File, error)     { return f.root.Open(name) }
func (f rootFS) Stat(name string) (fs.FileInfo, error) { return f.root.Stat(name) }

// site is a set of directories that are served as one.
type site struct {
	roots  []*os.Root
	dirs   []fs.FS
	base   string // the base URL they are published for; "" if none is
	prefix string
}

func openSite(dirs []string) (*site, error) {
	s := &site{prefix: "/"}
	for _, name := range dirs {
		root, err := os.OpenRoot(name)
		if err != nil {
			s.close()
			return nil, err
		}
		s.roots = append(s.roots, root)
		dir := rootFS{root}
		s.dirs = append(s.dirs, dir)
		switch info, err := source.ReadPublicationInfo(dir); {
		case err == nil && s.base != "" && s.base != info.BaseURL:
			s.close()
			return nil, usagef("%q is published for %s, a directory before it for %s: serve them apart", name, info.BaseURL, s.base)
		case err == nil:
			s.base, s.prefix = info.BaseURL, info.Prefix()
		case !errors.Is(err, fs.ErrNotExist):
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *site) close() {
	for _, r := range s.roots {
		_ = r.Close()
	}
}
