package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/guard"
	"instep/internal/publish"
	"instep/mirror"
)

const demoHelp = `Demo shows Instep on this machine, without a network. It makes a small museum collection,
publishes and serves it on the loopback interface, mirrors it into another directory, and audits
the mirror. Then the museum changes its collection again and again, and the mirror follows,
until you press Ctrl-C. With --once it ends after one round. At the end it removes everything,
unless --dir is given.`

type demoFlags struct {
	once  bool
	dir   string
	every time.Duration
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "show a changing Source and its mirror on this machine",
		Long:    demoHelp,
		Example: `  instep demo --once`,
		Args:    exactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), &f) },
	}
	cmd.Flags().BoolVar(&f.once, "once", false, "end after one round of changes")
	cmd.Flags().StringVar(&f.dir, "dir", "", "make the demonstration in this new or empty `DIR`, and keep its files")
	timeVar(cmd.Flags(), &f.every, "every", 3*time.Second, "`TIME` between two rounds of changes")
	return cmd
}

// demoLimit is the value of --max-delete in the demonstration. It allows all deletions, because
// the museum deletes more objects than a mirror deletes by default.
const demoLimit = "100%"

type demo struct {
	*app
	collection, documents, state, copy string
	museum                             *museum
	url                                string

	begin                                  time.Time
	published, mirrored, changed, followed int64
	audited, requests                      int64
}

func (a *app) demo(ctx context.Context, f *demoFlags) error {
	dir, remove, err := demoDir(f.dir)
	if err != nil {
		return err
	}
	defer remove()
	d := &demo{
		app: a, begin: a.now(),
		collection: filepath.Join(dir, "collection"), documents: filepath.Join(dir, "documents"),
		state: filepath.Join(dir, "state"), copy: filepath.Join(dir, "mirror"),
	}
	if err := os.MkdirAll(d.documents, 0o755); err != nil {
		return err
	}
	d.museum = newMuseum(d.collection)
	stop, err := d.openSource(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := d.firstRound(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := d.nextRound(ctx); err != nil {
			return err
		}
		if f.once {
			break
		}
		d.line("\nThe next changes come in %s; Ctrl-C ends the demonstration.", f.every)
		select {
		case <-ctx.Done():
		case <-time.After(f.every):
		}
	}
	d.report()
	return nil
}

func demoDir(dir string) (string, func(), error) {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "instep-demo-")
		return tmp, func() { _ = os.RemoveAll(tmp) }, err
	}
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return "", nil, usagef("--dir %q: expected a new or empty directory", dir)
	case err != nil && !os.IsNotExist(err):
		return "", nil, err
	}
	return dir, func() {}, os.MkdirAll(dir, 0o755)
}

func (d *demo) line(format string, args ...any) { d.out.line(format, args...) }

func (d *demo) step(what, command string) {
	d.line("\n%s", what)
	d.line("  $ %s", command)
}

func (d *demo) openSource(ctx context.Context) (stop func(), err error) {
	if err := d.museum.open(); err != nil {
		return nil, err
	}
	site, err := openSite([]string{d.collection, d.documents})
	if err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		site.close()
		return nil, err
	}
	d.url = "http://" + ln.Addr().String() + "/"
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.serveUntil(ctx, ln, site) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			d.out.warn(warningRecord{Message: err.Error()})
		}
		site.close()
	}, nil
}

func (d *demo) firstRound(ctx context.Context) error {
	d.line("A small museum with %d objects, each a record, a label and a picture.", len(d.museum.objects))
	if err := d.publishAll(ctx, "The museum describes its collection:"); err != nil {
		return err
	}
	d.step("It serves collection and documents:", fmt.Sprintf("instep serve collection documents --addr %s", d.url[len("http://"):len(d.url)-1]))
	n, err := d.follow(ctx, "A library mirrors it, verifying every byte:")
	if err != nil {
		return err
	}
	d.mirrored += n
	return d.auditAll(ctx)
}

func (d *demo) nextRound(ctx context.Context) error {
	told, err := d.museum.change()
	if err != nil {
		return err
	}
	d.line("\nThe museum works on its collection:")
	for _, what := range told {
		d.line("  %s", what)
	}
	if err := d.publishAll(ctx, "It publishes what changed:"); err != nil {
		return err
	}
	n, err := d.follow(ctx, "The library follows:")
	if err != nil {
		return err
	}
	d.followed += n
	return d.auditAll(ctx)
}

func (d *demo) publishAll(ctx context.Context, what string) error {
	d.step(what, "instep publish collection --out documents --base-url "+d.url)
	rep, err := publish.Run(ctx, publish.Site{
		Dir: d.collection, Out: d.documents, State: d.state, BaseURL: d.url, Sets: []publish.Set{{}}, Now: d.now, Generator: "instep/" + version,
	}, publish.What{})
	if err != nil {
		return err
	}
	if rep.Failed > 0 {
		return fmt.Errorf("%s could not be published; the first error is: %w", counted(rep.Failed, "file"), rep.Failures[0].Err)
	}
	d.line("  %d resources, %s: %d created, %d updated, %d deleted, %d unchanged",
		rep.Resources, humanSize(rep.Bytes), rep.Created, rep.Updated, rep.Deleted, rep.Unchanged)
	if d.published == 0 {
		d.published = rep.Resources
	} else {
		d.changed += rep.Created + rep.Updated + rep.Deleted
	}
	return nil
}

func (d *demo) withMirror(ctx context.Context, use func(*destination.Destination, *mirror.Mirror) error) (err error) {
	var net traffic
	client, err := d.connect(ctx, d.url, &sourceFlags{workers: 4}, &net)
	if err != nil {
		return err
	}
	defer client.Close()
	m, err := mirror.Open(ctx, mirror.Options{Dir: d.copy, Now: d.now, Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	defer func() { d.requests += net.requests.Load() }()
	dest := &destination.Destination{Source: d.url, Mirror: m, Client: client}
	if dest.MaxDelete, err = guard.ParseLimit(demoLimit); err != nil {
		return err
	}
	return use(dest, m)
}

func (d *demo) follow(ctx context.Context, what string) (n int64, err error) {
	d.step(what, "instep sync --max-delete "+demoLimit+" "+d.url+" mirror")
	err = d.withMirror(ctx, func(dest *destination.Destination, m *mirror.Mirror) error {
		plan, err := dest.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		if err := m.Bind(ctx, plan.Source, plan.Origin, plan.URIs()...); err != nil {
			return err
		}
		rep, err := dest.Apply(ctx, plan)
		if err != nil {
			return err
		}
		var t totals
		for _, s := range rep.Sets {
			t.AddReport(s)
			d.line("  %s: %s", s.Mode, s.Why)
		}
		if t.ExitCode() != exitOK {
			return fmt.Errorf("the mirror is not in step: %s failed", counted(t.Failed, "resource"))
		}
		d.line("  Status: IN SYNC (same=%d, created=%d, updated=%d, deleted=%d, failed=%d)", t.Same, t.Created, t.Updated, t.Deleted, t.Failed)
		n = t.Created + t.Updated + t.Deleted
		return nil
	})
	return n, err
}

func (d *demo) auditAll(ctx context.Context) error {
	d.step("And proves that it is in step:", "instep audit "+d.url+" mirror")
	return d.withMirror(ctx, func(dest *destination.Destination, _ *mirror.Mirror) error {
		audit, err := dest.Audit(ctx)
		if err != nil {
			return err
		}
		for _, s := range audit.Sets {
			d.audited += s.Verdicts[destination.VerdictSame]
			d.line("  %d the same to the last byte, %d missing, %d extra, %d different", s.Verdicts[destination.VerdictSame],
				s.Verdicts[destination.VerdictMissing], s.Verdicts[destination.VerdictExtra], s.Verdicts[destination.VerdictDifferent])
		}
		if !audit.InSync() {
			return errors.New("the audit found differences between the Source and the mirror")
		}
		return nil
	})
}

func (d *demo) report() {
	took := d.now().Sub(d.begin)
	d.line("")
	d.out.end(summary{
		Status: "in-sync", Resources: num(d.published), Created: num(d.mirrored), Updated: num(d.followed), Same: num(d.audited),
		Requests: num(d.requests), Seconds: seconds(took),
	}, fmt.Sprintf("Status: IN SYNC (published=%d, mirrored=%d, changed=%d, followed=%d, audited=%d)   %s",
		d.published, d.mirrored, d.changed, d.followed, d.audited, took.Round(10*time.Millisecond)))
}
