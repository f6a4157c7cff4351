package runs

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"instep/internal/webpage"
)

// Troubled reports whether something failed in the run, its exit code is not 0, or it did not end.
func (r *Record) Troubled() bool {
	return r.End == nil || r.Failures() > 0 || r.End.Error != "" || r.End.ExitCode != 0
}

// Group contains the failures of a run with the same cause.
type Group struct {
	Cause string
	What  string // explanation of the cause for the user
	Next  string // the command that the user should run next
	N     int64  // number of failures with the cause; Rows may contain only some of them
	Rows  []Row
}

// More returns the number of failures of the group that the record does not list.
func (g Group) More() int64 { return g.N - int64(len(g.Rows)) }

// Groups returns the failures of the run, grouped by cause, with the most frequent cause first.
// If wanted is not "", it returns only the group of that cause.
func (r *Record) Groups(wanted string) []Group {
	rows := map[string][]Row{}
	for _, row := range r.Rows {
		if row.Kind == Failure {
			rows[row.Cause] = append(rows[row.Cause], row)
		}
	}
	var groups []Group
	for _, cause := range slices.Sorted(maps.Keys(r.Causes)) {
		if wanted != "" && cause != wanted {
			continue
		}
		g := Group{Cause: cause, N: r.Causes[cause], Rows: rows[cause]}
		g.What, g.Next = advice(&r.Run, cause, g.Rows)
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(x, y Group) int { return cmp.Compare(y.N, x.N) })
	return groups
}

// advices has an explanation and the next step for each cause. The step "repair" is the command
// audit --repair, and "look" is sync -n. The other steps are names of commands.
var advices = map[string]struct{ what, step string }{
	CauseTemporary: {"the server was unreachable, too slow or busy", "sync"},
	CauseRefused:   {"your settings do not allow the request", "sync"},
	CauseNotFound:  {"the Source lists these resources, but the server does not have them", "lint"},
	CauseDenied:    {"the server requires credentials, or other credentials: give them with --netrc, --bearer-file or --header-file", "sync"},
	CauseTooLarge:  {"the server sent more bytes than the Source lists or this program accepts", "lint"},
	CauseProtocol:  {"the server's response does not fit a request for the resource", "sync"},
	CauseMismatch:  {"the server sent other bytes than the Source lists; the mirror keeps what it has", "lint"},
	CauseDocument:  {"a document of the Source cannot be used", "lint"},
	CauseOccupied:  {"a file that is not the mirror's has the path of the resource: move the file elsewhere, or sync with --adopt", "sync"},
	CauseNoPlace:   {"the mirror cannot make a path from the URI: leave out the resource with --exclude", "sync"},
	CauseMoved:     {"the resource changed during the run", "sync"},
	CauseOther:     {"this machine failed, not the Source: check the disk space and the permissions of the mirror", "sync"},
	CauseMissing:   {"the mirror does not have resources that the Source lists", "repair"},
	CauseDifferent: {"the mirror has other bytes than the Source", "repair"},
	CauseUnread:    {"the mirror's bytes could not be read: check its disk", "repair"},
	CauseExtra:     {"the mirror has resources that the Source does not list", "look"},
}

// CauseNames returns all causes, sorted.
func CauseNames() []string { return slices.Sorted(maps.Keys(advices)) }

func advice(run *Run, cause string, rows []Row) (what, next string) {
	a := advices[cause]
	var flags []string
	for _, r := range rows {
		if r.Hint != "" && !slices.Contains(flags, r.Hint) && len(flags) < 5 {
			flags = append(flags, r.Hint)
		}
	}
	switch {
	case a.step == "lint" && len(flags) == 0:
		return a.what, webpage.Shell("instep", "lint", run.Source)
	case a.step == "repair":
		return a.what, commandLine(run, "audit", "--repair")
	case a.step == "look":
		return a.what, commandLine(run, "sync", "-n")
	}
	var allow []string
	for _, f := range flags {
		allow = append(allow, strings.Fields(f)...)
	}
	return a.what, commandLine(run, "sync", allow...)
}

// exclusiveFlags maps each flag that only sync or only audit accepts to the name of that command.
var exclusiveFlags = map[string]string{
	"--max-delete": "sync", "--max-time": "sync", "--max-transfer": "sync", "--keep-deleted": "sync", "--keep-versions": "sync",
	"--prefer": "sync", "--duplicates": "sync", "--adopt": "sync", "--layout": "sync", "--at": "sync",
	"--quick": "audit", "--repair": "audit",
}

// commandLine returns a shell command for the Source and the mirror of a run. It adds those options
// of the run that the command accepts.
func commandLine(run *Run, command string, flags ...string) string {
	line := append([]string{"instep", command}, flags...)
	for _, o := range run.Options {
		name, _, _ := strings.Cut(o, "=")
		if owner := exclusiveFlags[name]; (owner == "" || owner == command) && !hasOption(flags, o) {
			line = append(line, o)
		}
	}
	return webpage.Shell(append(line, run.Source, run.Dir)...)
}

// hasOption reports whether flags contain an option (--name or --name=value) with the same value.
// Another value makes another option, because flags such as --allow-origin can be repeated.
func hasOption(flags []string, option string) bool {
	name, value, valued := strings.Cut(option, "=")
	for i, f := range flags {
		if f == name && (!valued || i+1 < len(flags) && flags[i+1] == value) {
			return true
		}
	}
	return false
}
