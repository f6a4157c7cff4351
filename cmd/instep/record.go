package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"instep/internal/publish"
	rec "instep/internal/record"
	"instep/internal/watch"
)

type recordFlags struct {
	config, set, socket string
	every               time.Duration
}

const recordHelp = `Record takes changes from an application, stores them, and publishes them a moment later,
without a scan. Each line is a JSON object with one change:

    {"uri": "https://museum.example.org/objects/7", "hash": "sha-256:…", "length": 512,
     "type": "application/json", "lastmod": "2026-11-01T10:00:00Z", "change": "updated"}
    {"uri": "https://museum.example.org/objects/8", "change": "deleted"}
    {"path": "maps/one.txt"}

(The first is printed on two lines only here.) For a path, record reads the file below DIR; if
the file is gone, the resource is deleted. A set made of the files in DIR accepts only these
files, by path or by uri, because the next scan would delete everything else. Without DIR a set
contains only what the lines describe. Without "change", record compares the line with the
recorded state to decide whether the resource was created or updated. A line may be sent again:
the same bytes are no change.

Lines come from standard input until it ends, or with --socket from any number of connections to
a Unix socket that only you can open. Record answers each line, in order: on the socket with
{"line":1,"ok":true,"uri":"…","change":"created"} or {"line":2,"ok":false,"error":"…"}. "ok"
means that the change is on disk and will be published even if the program is killed. A wrong
line does not stop the others; the exit code is then 4.`

func (a *app) recordCommand() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record [DIR] --base-url URL",
		Short: "publish the changes that an application pushes",
		Long:  recordHelp,
		Example: `  instep record ./collection --base-url https://museum.example.org/ < changes.jsonl
  instep record --base-url https://museum.example.org/ --out ./documents < objects.jsonl
  instep record -c site.yaml --set objects --socket /run/instep/objects.sock`,
		Args: optionalArgs(0, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.record(cmd, &f, args) },
	}
	addOptions(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.config, "config", "c", "", "read the configuration from this `FILE` (YAML)")
	fs.StringVar(&f.set, "set", "", "`NAME` of the set to which the changes belong")
	fs.StringVar(&f.socket, "socket", "", "listen on a Unix socket at this `PATH` instead of reading standard input")
	timeVar(fs, &f.every, "every", time.Second, "minimum `TIME` between two publications")
	return cmd
}

func (a *app) record(cmd *cobra.Command, f *recordFlags, args []string) (err error) {
	c, err := configure(cmd, f.config, f.set)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		c.Dir, c.origins["dir"] = args[0], fromArgument+"DIR"
	}
	switch {
	case c.Dir == "" && c.Out == "":
		return usagef("give DIR, the directory of the resources, or --out, the directory of the documents")
	case len(c.Sets) > 1 && f.set == "":
		return usagef("--set is missing, and the configuration has %d sets to choose from", len(c.Sets))
	case f.every <= 0:
		return usagef("--every %s: expected a time above 0", f.every)
	}
	if err := c.completeBaseURL(cmd, a.now); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	site, err := c.placedSite()
	if err != nil {
		return err
	}
	if c.file != nil && f.set == "" {
		f.set = c.Sets[0].Name
	}
	site.RebaseMin, site.Now, site.Generator = watch.SnapshotEvery, a.now, "instep/"+version
	ctx := cmd.Context()
	s, err := publish.Open(ctx, site)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return a.recordInto(ctx, s, f)
}

func (a *app) recordInto(ctx context.Context, s *publish.Session, f *recordFlags) error {
	begin := a.now()
	what := publish.What{Sets: []string{f.set}, NoScan: true}
	if _, err := s.Publish(ctx, what); err != nil { // this publishes the changes that an earlier run recorded but did not publish
		return err
	}
	r := &rec.Recorder{Session: s, Set: f.set, Every: f.every, Now: a.now}
	r.Published = func(rep publish.Report, err error) {
		for _, text := range rep.Notes {
			a.out.warn(warningRecord{Message: text})
		}
		if err != nil {
			a.warnOf(ctx, err)
		}
		if f.socket != "" && err == nil && rep.Published {
			a.out.line("%s  published, %s", a.now().UTC().Format(time.RFC3339), counted(rep.Resources, "resource"))
		}
	}
	var n recordCount
	intake := func(ctx context.Context) error {
		return r.Read(ctx, os.Stdin, func(answer rec.Answer) { a.tellAnswer(&answer, &n) })
	}
	if f.socket != "" {
		ln, err := listenUnix(ctx, f.socket)
		if err != nil {
			return err
		}
		a.out.record(&statusRecord{Addr: f.socket})
		a.out.line("Listening on %s; end with Ctrl-C", f.socket)
		r.Answered = n.count
		intake = func(taking context.Context) error {
			err := r.Serve(taking, ln)
			if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
				return nil // the user has stopped the command, which is not a failure
			}
			return err
		}
	}
	if err := r.Run(ctx, intake); err != nil {
		return err
	}
	status := "published"
	if n.failed > 0 && f.socket == "" { // failures of lines from a socket do not count, because their senders were told already
		a.code, status = exitPartial, "partial"
	}
	a.out.end(summary{
		Status: status, Same: num(n.unchanged), Created: num(n.created), Updated: num(n.updated), Deleted: num(n.deleted),
		Failed: num(n.failed), Seconds: seconds(a.now().Sub(begin)), ExitCode: a.code,
	}, fmt.Sprintf("Status: %s (same=%d, created=%d, updated=%d, deleted=%d, failed=%d)",
		words[status], n.unchanged, n.created, n.updated, n.deleted, n.failed))
	return nil
}

type recordCount struct{ created, updated, deleted, unchanged, failed int64 }

func (n *recordCount) count(answer rec.Answer) {
	switch {
	case !answer.OK:
		n.failed++
	case answer.Change == "created":
		n.created++
	case answer.Change == "updated":
		n.updated++
	case answer.Change == "deleted":
		n.deleted++
	default:
		n.unchanged++
	}
}

func (a *app) tellAnswer(answer *rec.Answer, n *recordCount) {
	n.count(*answer)
	if !answer.OK {
		a.out.warn(warningRecord{URI: answer.URI, Line: answer.Line, Message: fmt.Sprintf("line %d: %s", answer.Line, answer.Error)})
		return
	}
	a.out.record(&changeRecord{Action: answer.Change, URI: answer.URI, Line: answer.Line})
	a.out.flush() // the sender of the line waits for this answer, so it must be written at once
}

// listenUnix replaces an existing socket if no program listens on it, but no other file.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, usagef("--socket %s: the existing file is not a socket", path)
	default:
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return nil, errors.Join(usagef("--socket %s: another program listens on this socket", path), conn.Close())
		case !abandoned(err): // the socket is not replaced, because another user may use it
			return nil, usagef("--socket %s: the socket may belong to another program: %v", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return listenPrivately(ctx, path)
}
