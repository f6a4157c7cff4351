package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

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

func explain(ctx context.Context, err error) (code int, hint string) {
	if code, ok := interrupted(ctx); ok {
		return code, "what was completed is kept; give the same command again to continue"
	}
	code = exitFailed
	for _, c := range causes {
		if text, ok := c.is(err); ok {
			code, hint = c.code, text
			break
		}
	}
	if told := tell(err).hint; told != "" {
		hint = told
	}
	if m, ok := errors.AsType[*hintedError](err); ok {
		hint = m.hint
	}
	return code, hint
}

func wrongPlace(err error) (hint string, ok bool) {
	var se *publish.StateError
	if !errors.As(err, &se) {
		return "", false
	}
	switch se.What {
	case publish.WhatBaseURL:
		return fmt.Sprintf("--move-to %s, given once, moves the publication to this base URL", shellLine(se.Given)), true
	case publish.WhatOut:
		return fmt.Sprintf("give --out %s, or first move the documents from that directory to the new one", shellLine(se.Recorded)), true
	case publish.WhatDir:
		return "name another state with --state DIR; if this directory was copied or moved, --adopt then takes over the documents in it", true
	}
	return "name another state with --state DIR", true
}

func wrongState(err error) (hint string, ok bool) {
	var we *source.WrongStateError
	if !errors.As(err, &we) {
		return "", false
	}
	return takeOverHint(we.BaseURL), true
}

func tooManyGone(err error) (hint string, ok bool) {
	var ge *scan.GuardError
	if !errors.As(err, &ge) {
		return "", false
	}
	if ge.Renamed() {
		return "do all resources get other URIs, by --original-uris or because files were moved? Readers would delete and create each of them. If that is meant: --max-delete 100%", true
	}
	return "is the directory complete, its disk mounted, and are the patterns right? If the resources are really gone: --max-delete 100%", true
}

func takeOverHint(baseURL string) string {
	return fmt.Sprintf("if the state is elsewhere: --state DIR; if it is lost, or this is a copy: this command with --adopt --base-url %s takes over the documents; then --move-to URL moves them", shellLine(baseURL))
}

type cause struct {
	code int
	is   func(error) (hint string, ok bool)
}

func ofType[E error](hint string) func(error) (string, bool) {
	return func(err error) (string, bool) {
		var e E
		return hint, errors.As(err, &e)
	}
}

func sentinel(target error, hint string) func(error) (string, bool) {
	return func(err error) (string, bool) { return hint, errors.Is(err, target) }
}

const configHint = "instep help configuration has an example to copy and explains the keys; instep config check FILE shows what a file says"

var causes = []cause{
	{exitUsage, ofType[*usageError]("")},
	{exitUsage, ofType[*configError](configHint)},
	{exitUsage, ofType[*publish.OptionError]("see instep publish --help")},
	{exitUsage, ofType[*discover.UnknownSetError]("give one of the existing sets to --set")},
	{exitUsage, ofType[*destination.GlobError]("globs are written as in .gitignore: *.png, /x.png, a/, a/**/b")},
	{exitUsage, ofType[*mirror.StateError]("leave out --state to use .instep in the mirror, or name a directory outside of all mirrors")},
	{exitLocked, ofType[*flock.LockedError]("wait until the other run has ended")},
	{exitTemporary, sentinel(republish.ErrNoBaseline, "run instep sync on the mirror until it is in sync, and publish again")},
	{exitTemporary, sentinel(republish.ErrDisturbed, "publish again when the run of sync has ended")},
	{exitUsage, sentinel(republish.ErrShared, "--original-uris lists the resources under the URIs that they have at their origin")},
	{exitGuard, wrongPlace},
	{exitGuard, tooManyGone},
	{exitGuard, sentinel(scan.ErrRoot, "is the directory spelled right, and its disk mounted?")},
	{exitGuard, ofType[*source.NotOursError]("move the file of the other program away, or publish to another directory with --out")},
	{exitGuard, ofType[*publish.AdoptError]("-n with --adopt shows what would be adopted; files that do not belong to the publication must be moved away first")},
	{exitGuard, wrongState},
	{exitGuard, sentinel(mirror.ErrNotEmpty, "mirror into an empty or a new directory, or let --adopt take over the files that are there")},
	{exitGuard, ofType[*destination.MomentError]("leave out --at to continue with this mirror, or mirror that moment into another directory")},
	{exitGuard, sentinel(errOtherBytes, "name a file with --to that does not exist, or move the existing file away")},
	{exitGuard, sentinel(mirror.ErrLayout, "leave out --layout, or mirror into a new directory")},
	{exitGuard, sentinel(errMirrorState, "is the state of the mirror elsewhere? Name it with --mirror-state DIR")},
	{exitGuard, sentinel(mirror.ErrLostCatalog, "is the directory in --state right? If the catalog is lost, sync with --adopt: "+notAgain)},
	{exitGuard, sentinel(mirror.ErrWrongStore, "instep sync makes a mirror; if there was a mirror, is its disk mounted, and the directory in --state right?")},
	{exitFailed, sentinel(mirror.ErrFull, "make room, and give the same command again: what was fetched is kept; the directory .instep/trash contains the bytes that earlier runs replaced or deleted")},
	{exitFailed, ofType[*harvest.UncoveredError]("the Source must offer a list or dump of that moment or earlier, and all changes since then; a Source that publishes archives (instep publish --archive) keeps offering them")},
	{exitFailed, ofType[*unknownPastError]("give a later moment; instep sync --keep-versions sets how long earlier states are kept")},
	{exitFailed, sentinel(mirror.ErrNoVersion, "instep history DIR lists the states that are kept; --at TIME chooses one")},
	{exitUsage, sentinel(runs.ErrNoRun, "instep report DIR lists the recorded runs; of successive runs that found nothing new, only the last is recorded")},
	{exitUsage, sentinel(mirror.ErrUnknownPlan, "give the hash that the last sync printed")},
	{exitGuard, ofType[*mirror.WrongSourceError]("give the Source of this mirror, or another directory; if the Source has moved to the given URL: " + movedSource)},
	{exitTransfer, sentinel(destination.ErrMaxTransfer, "what was fetched is kept; give the same command again to continue")},
	{exitTime, sentinel(destination.ErrMaxTime, "what was fetched is kept; give the same command again to continue")},
	{exitTemporary, sentinel(destination.ErrOutage, "what was fetched is kept; give the same command again later")},
	{exitTemporary, temporary},
	{exitTemporary, unreachableDatabase},
	{exitFailed, ofType[*publish.NothingError]("the messages above say why each resource could not be read")},
	{exitFailed, sentinel(scan.ErrListing, "is the URL or file of --from right, or of the key \"from\" in the configuration?")},
	{exitFailed, ofType[*watch.LateError]("to find changes at once, raise the limit of the system: on Linux sysctl fs.inotify.max_user_watches")},
	{exitFailed, ofType[*discover.Error]("give the URI of the Source Description, a Capability List or a list")},
	{exitFailed, ofType[*inputError]("is FILE spelled right? The name - means standard input")},
	{exitFailed, refusedDocument},
	{exitFailed, ofType[*ore.IncompleteError]("instep ore find URL names each linked map that cannot be read")},
	{exitFailed, notMap},
	{exitFailed, sentinel(catalog.ErrDamaged, "restore the catalog from a backup; if a mirror has no backup, sync with --adopt: "+notAgain)},
	{exitFailed, sentinel(catalog.ErrNewerSchema, "use the newer version of instep that wrote the catalog")},
}

// movedSource is a hint for users of a mirror whose Source has moved to another address.
const movedSource = "first copy the files of the mirror, without .instep, into the other directory, and add --adopt"

const notAgain = "verified files that exist already are not fetched again"

func refusedDocument(err error) (hint string, ok bool) {
	var re *convert.RefusedError
	if !errors.As(err, &re) {
		return "", false
	}
	return cmp.Or(re.Hint, "give a ResourceSync document or a sitemap"), true
}

func unreachableDatabase(err error) (hint string, ok bool) {
	var dial *net.OpError
	var name *net.DNSError
	return "is the database running, and are host and port right?",
		errors.Is(err, scan.ErrListing) && (errors.As(err, &dial) || errors.As(err, &name))
}

// temporary reports whether a request failed for a temporary reason. A block by the server (403, 429)
// counts as temporary, since it may end.
func temporary(err error) (hint string, ok bool) {
	cause := err
	if de, ok := errors.AsType[*discover.Error](err); ok && len(de.Tried) > 0 {
		cause = cmp.Or(failedRequest(de), err)
	}
	var fe *fetch.Error
	if !errors.As(cause, &fe) {
		return "", false
	}
	if fe.Kind == fetch.Temporary && fe.Status == 0 && fe.Hint == "" {
		hint = "is the Source being served, and are host and port right?"
	}
	return hint, errors.Is(err, fetch.Temporary) || fe.Status == http.StatusForbidden || fe.Status == http.StatusTooManyRequests
}
