package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"instep/source"
)

const serveHelp = `Serve answers GET and HEAD requests for a published site, with the headers that harvesters and
browsers need: media types, ETag and conditional requests, ranges, a Link to the Capability
List, and a policy that stops served pages from running scripts for this host.

If several directories are given, serve answers with the file of the first directory that has
the path: for example the content in one directory and the documents, from publish --out, in
another. A site whose base URL has a path is served below that path, and its Source Description
also at the well-known URI of the host. Several publications for one host can be served
together, each below its path; the Source Description then lists all of them. A directory
without a publication belongs to the next directory that has one. If nothing is published in any
of them, serve says so, and serves the files. Dotfiles are never served.

If there is no robots.txt, serve answers with one that names the Sitemaps. "/" leads to the page
about the collection if there is no index.html. /healthz answers "ok" as long as the directories
can be read. A directory that is replaced is served again after a restart; until then /healthz
answers 503. --access-log writes a line for each request, in the Common Log Format or as JSON;
for logrotate use copytruncate.

With -c FILE serve takes the directories from a configuration file of publish, and applies its
rules: media types, the Content-Encoding of compressed files, a Link for each set that contains
a file, and, with "timegates", TimeGates and TimeMaps for the versions of resources (instep help
links).

Three services are off by default. --on-demand makes packages of the resources that a request
names, within limits (instep help on-demand). --oai-pmh answers OAI-PMH 2.0 requests at
resourcesync/oai-pmh below the base URL (instep help inputs). --pmh2ore URL answers requests for
/pmh2ore?url=GETRECORD-URL with the Resource Map in that record of the repository at URL.`

// defaultAddr is the address at which serve and simulate listen unless --addr is given.
const defaultAddr = "127.0.0.1:8080"

type serveFlags struct {
	addr, config         string
	accessLog, logFormat string
	onDemand             bool
	oai                  bool
	gateway              []string // origins
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve DIR...",
		Short: "serve a published site",
		Long:  serveHelp,
		Example: `  instep serve ./collection
  instep serve ./collection ./documents --addr 127.0.0.1:8080
  instep serve ./museum ./museum-documents ./archive ./archive-documents
  instep serve ./collection --access-log access.log
  instep serve -c site.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			sites, err := f.sites(cmd, args, a.now)
			if err != nil {
				return err
			}
			defer closeAll(sites)
			if sites[0].gateway, err = a.gatewayOf(cmd.Context(), f.gateway); err != nil {
				return err
			}
			return a.serve(cmd.Context(), sites, &f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.addr, "addr", defaultAddr, "listen on this `HOST:PORT`")
	fs.StringVarP(&f.config, "config", "c", "", "serve what the configuration in this `FILE` publishes")
	fs.StringVar(&f.accessLog, "access-log", "", "append a line for each request to `FILE`, or write the lines to standard output if FILE is -")
	fs.StringVar(&f.logFormat, "log-format", logCommon, "format of the lines of --access-log: `common|json`")
	fs.BoolVar(&f.onDemand, "on-demand", false, "with -c: make packages of the resources that a POST request names")
	fs.BoolVar(&f.oai, "oai-pmh", false, "with -c: answer OAI-PMH requests for the published resources")
	fs.StringArrayVar(&f.gateway, "pmh2ore", nil, "offer the Resource Maps in the OAI-PMH repository at this `URL`, or in all repositories at this origin (repeatable)")
	return cmd
}

func (f *serveFlags) sites(cmd *cobra.Command, args []string, now func() time.Time) ([]*site, error) {
	switch {
	case f.config == "" && f.onDemand:
		return nil, usagef("--on-demand requires -c FILE, because the configuration names the state")
	case f.config == "" && f.oai:
		return nil, usagef("--oai-pmh requires -c FILE, because the configuration names the state")
	case f.config == "" && len(args) == 0:
		return nil, usagef("DIR is missing (see %s --help)", cmd.CommandPath())
	case f.config == "":
		return openHost(args)
	case len(args) > 0:
		return nil, usagef("unexpected argument %q: with -c the configuration names the directories", args[0])
	}
	c, err := configure(cmd, f.config, "")
	if err != nil {
		return nil, err
	}
	if err := c.needsDir(cmd); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	s, err := openConfigured(cmd.Context(), c, f.onDemand, now)
	if err != nil {
		return nil, err
	}
	if f.oai {
		s.oai, s.closeOAI, err = c.repositoryOf(cmd.Context(), now)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return []*site{s}, nil
}

func (a *app) serve(ctx context.Context, sites []*site, f *serveFlags) (err error) {
	h := healthy(sites, handlerOf(sites, a.now, a.warnOfServer))
	if f.accessLog != "" {
		log, err := f.openLog(a)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		h = log.handler(h)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return err
	}
	url := "http://" + ln.Addr().String() + "/"
	if len(sites) == 1 {
		url = "http://" + ln.Addr().String() + sites[0].prefix
	}
	a.out.record(&statusRecord{Addr: ln.Addr().String(), URI: url})
	a.out.line("Serving %s (end with Ctrl-C)", url)
	if !slices.ContainsFunc(sites, func(s *site) bool { return s.isPublished() || s.gateway != nil }) {
		base := url
		if at, ok := ln.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
			base = "URL"
		}
		command := shellLine("instep", "publish", sites[0].roots[0].Name(), "--base-url", base)
		if f.config != "" {
			command = shellLine("instep", "publish", "-c", f.config)
		}
		a.out.warn(warningRecord{Message: "there is no .well-known/resourcesync here, so programs do not find what to mirror", Hint: "to publish it: " + command})
	}
	err = serveHandler(ctx, ln, h)
	if err == nil {
		a.out.end(summary{Status: "clean"}, "Stopped.")
	}
	return err
}

func (f *serveFlags) openLog(a *app) (*accessLog, error) {
	if err := choose("log-format", f.logFormat); err != nil {
		return nil, err
	}
	if f.accessLog == "-" && a.out.json {
		return nil, usagef("--access-log - and --json both write to standard output: give --access-log a file")
	}
	return openAccessLog(f.accessLog, f.logFormat, a.stdout, a.now, a.warnOfServer)
}

func (a *app) warnOfServer(err error) { a.out.warn(warningRecord{Message: err.Error()}) }

// stopTime is how long unfinished responses may take after the server is told to stop.
const stopTime = 4 * time.Second

func (a *app) serveUntil(ctx context.Context, ln net.Listener, sites ...*site) error {
	return serveHandler(ctx, ln, handlerOf(sites, a.now, a.warnOfServer))
}

// serveHandler returns nil when ctx is done, and an error if the server fails earlier.
func serveHandler(ctx context.Context, ln net.Listener, h http.Handler) error {
	srv := source.NewServer(h)
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
		_ = srv.Close() // ends the responses that are still unfinished
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
