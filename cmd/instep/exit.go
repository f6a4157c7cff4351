package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"

	"instep/destination"
	"instep/discover"
	"instep/fetch"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/internal/convert"
	"instep/internal/flock"
	"instep/internal/publish"
	"instep/internal/republish"
	"instep/internal/runs"
	"instep/internal/scan"
	"instep/internal/watch"
	"instep/mirror"
	"instep/ore"
	"instep/source"
)

// Exit codes; rootHelp explains them.
const (
	exitOK          = runs.ExitOK
	exitFailed      = runs.ExitFailed
	exitUsage       = 2
	exitDifferences = 3
	exitPartial     = runs.ExitPartial
	exitTemporary   = runs.ExitTemporary
	exitGuard       = runs.ExitGuard
	exitTransfer    = 8
	exitTime        = 10
	exitLocked      = 11
	exitInterrupted = 130
	exitTerminated  = 143
)

// explain maps an error to an exit code and a hint. Only this function decides that.
func explain(ctx context.Context, err error) (code int, hint string) {
	if code, ok := interrupted(ctx); ok {
		return code, "what was done is saved; give the same command again to go on"
	}
	code = exitFailed
	for _, c := range causes {
		text, ok := c.is(err)
		if ok {
			code, hint = c.code, text
			break
		}
	}
	if told := tell(err).hint; told != "" {
		hint = told
	}
	if m, ok := errors.AsType[*mendable](err); ok {
		hint = m.hint
	}
	return code, hint
}

// wrongPlace returns the hint for a publisher's state that belongs to something else.
func wrongPlace(err error) (hint string, ok bool) {
	var se *publish.StateError
	if !errors.As(err, &se) {
		return "", false
	}
	switch se.What {
	case publish.WhatBaseURL:
		return "to move it there, once: --move-to " + shellLine(se.Given), true
	case publish.WhatOut:
		return "give --out " + shellLine(se.Recorded) + ", or move the documents there to the new place first", true
	}
	return "name another state with --state DIR", true
}

type cause struct {
	code int
	is   func(error) (hint string, ok bool)
}

// as returns a test for errors of type E.
func as[E error](hint string) func(error) (string, bool) {
	return func(err error) (string, bool) {
		var e E
		return hint, errors.As(err, &e)
	}
}

// is returns a test for a sentinel error.
func is(target error, hint string) func(error) (string, bool) {
	return func(err error) (string, bool) { return hint, errors.Is(err, target) }
}

const configHint = "instep config check FILE shows what a file says; instep help configuration explains its keys"

var causes = []cause{
	{exitUsage, as[*usageError]("")},
	{exitUsage, as[*configError](configHint)},
	{exitUsage, as[*publish.OptionError]("see instep publish --help")},
	{exitUsage, as[*discover.UnknownSetError]("give one of these to --set")},
	{exitUsage, as[*destination.GlobError]("globs are written as in .gitignore: *.png, /x.png, a/, a/**/b")},
	{exitUsage, as[*mirror.StateError]("leave --state out, for .instep in the mirror, or name a directory that is in no mirror")},
	{exitLocked, as[*flock.LockedError]("wait until it has ended")},
	{exitTemporary, is(republish.ErrNoBaseline, "run instep sync on the mirror until it is in sync, and publish again")},
	{exitTemporary, is(republish.ErrDisturbed, "publish again when that run has ended")},
	{exitUsage, is(republish.ErrShared, "--original-uris lists the resources under the URIs that they have at their origin")},
	{exitGuard, wrongPlace},
	{exitGuard, as[*scan.GuardError]("is the directory complete, its disk mounted, and are the patterns meant? If the resources are really gone: --max-delete 100%")},
	{exitGuard, is(scan.ErrRoot, "is the directory spelled right, and its disk there?")},
	{exitGuard, as[*source.NotOursError]("move that file away, or publish elsewhere with --out")},
	{exitGuard, as[*publish.AdoptError]("-n with --adopt shows what would be adopted; what is no part of the publication has to be moved away first")},
	{exitGuard, as[*source.WrongStateError]("if its state is elsewhere, name it with --state DIR; if it is lost, --adopt takes over what is published, after which --move-to URL moves it")},
	{exitGuard, is(mirror.ErrNotEmpty, "mirror into an empty or a new directory, or let --adopt take over the files that are there")},
	{exitGuard, as[*destination.MomentError]("leave --at out to go on with this mirror, or mirror that moment into another directory")},
	{exitGuard, is(mirror.ErrLayout, "leave --layout out, or mirror into a new directory")},
	{exitGuard, is(errMirrorState, "is the state of the mirror elsewhere? Name it by --mirror-state DIR")},
	{exitGuard, is(mirror.ErrLostCatalog, "is --state the right one? If the catalog is lost, sync with --adopt: what is there and verified is not fetched again")},
	{exitGuard, is(mirror.ErrWrongStore, "instep sync makes a mirror; if there was one, is its disk mounted, and --state the right one?")},
	{exitFailed, is(mirror.ErrFull, "make room, and give the same command again: what was fetched is kept; replaced and deleted bytes are in .instep/trash for a while")},
	{exitFailed, as[*harvest.UncoveredError]("the Source has to offer a list or dump of that moment or before, and all changes since; it keeps offering them if it publishes archives (instep publish --archive)")},
	{exitFailed, as[*unknownPastError]("give a moment since then; instep sync --keep-versions says for how long earlier states are kept")},
	{exitFailed, is(mirror.ErrNoVersion, "instep history DIR lists the states that are kept")},
	{exitUsage, is(runs.ErrNoRun, "instep report DIR lists the runs that are kept")},
	{exitUsage, is(mirror.ErrUnknownPlan, "give the hash that the last sync printed")},
	{exitGuard, as[*mirror.WrongSourceError]("mirror another Source into another directory")},
	{exitTransfer, is(destination.ErrMaxTransfer, "what was fetched is kept; give the same command again to go on")},
	{exitTime, is(destination.ErrMaxTime, "what was fetched is kept; give the same command again to go on")},
	{exitTemporary, is(destination.ErrOutage, "what was fetched is kept; give the same command again later")},
	{exitTemporary, temporary},
	{exitTemporary, unreachable},
	{exitFailed, as[*publish.NothingError]("the messages above say why each could not be read")},
	{exitFailed, is(scan.ErrListing, "is the place of --from, or of from: in the configuration, right?")},
	{exitFailed, as[*watch.LateError]("to be told at once raise what the system allows: on Linux sysctl fs.inotify.max_user_watches")},
	{exitFailed, is(syscall.EADDRINUSE, "something else listens there; try another port with --addr")},
	{exitFailed, as[*discover.Error]("give the URI of its Source Description, Capability List or a list")},
	{exitFailed, as[*inputError]("is FILE spelled right? - is standard input")},
	{exitFailed, refusedDocument},
	{exitFailed, as[*ore.IncompleteError]("instep ore find URL names each map that is linked and cannot be read")},
	{exitFailed, notMap},
	{exitFailed, is(catalog.ErrDamaged, "restore the catalog from a backup; for a mirror without one sync with --adopt: what is there and verified is not fetched again")},
	{exitFailed, is(catalog.ErrNewerSchema, "use the newer version of instep that wrote it")},
}

// refusedDocument recognises a document that cannot be converted; the error contains
// its own hint.
func refusedDocument(err error) (hint string, ok bool) {
	var re *convert.RefusedError
	if !errors.As(err, &re) {
		return "", false
	}
	if re.Hint == "" {
		return "give a ResourceSync document or a sitemap", true
	}
	return re.Hint, true
}

// unreachable recognises a database with listed resources that cannot be reached at
// present.
func unreachable(err error) (hint string, ok bool) {
	var dial *net.OpError
	var name *net.DNSError
	return "is the database running, and are host and port right?",
		errors.Is(err, scan.ErrListing) && (errors.As(err, &dial) || errors.As(err, &name))
}

// temporary recognises a Source that is unreachable at present or blocks us.
func temporary(err error) (hint string, ok bool) {
	var fe *fetch.Error
	if !errors.As(err, &fe) {
		return "", false
	}
	if fe.Kind == fetch.Temporary && fe.Status == 0 && fe.Hint == "" {
		hint = "is the Source being served, and are host and port right?"
	}
	return hint, errors.Is(err, fetch.Temporary) || fe.Status == http.StatusForbidden || fe.Status == http.StatusTooManyRequests
}
