package runs

import (
	"maps"
	"slices"
	"strings"

	"instep/internal/webpage"
)

// Troubled reports whether anything failed in the run, or ended it early.
func (r *Record) Troubled() bool { return r.End == nil || r.Failures() > 0 || r.End.Error != "" }

// Group contains the failures with one cause.
type Group struct {
	Cause string
	What  string // meaning of the cause, for people
	Next  string // the command to run next
	N     int64  // number of failures; Rows has those that were kept
	Rows  []Row
}

// More returns the number of failures that are not in Rows.
func (g Group) More() int64 { return g.N - int64(len(g.Rows)) }

// Groups groups failures by cause, the most frequent cause first. If only is given it
// returns that cause alone.
func (r *Record) Groups(only string) []Group {
	rows := map[string][]Row{}
	for _, row := range r.Rows {
		if row.Kind == Failure {
			rows[row.Cause] = append(rows[row.Cause], row)
		}
	}
	var groups []Group
	for _, cause := range slices.Sorted(maps.Keys(r.Causes)) {
		n := r.Causes[cause]
		if only != "" && cause != only {
			continue
		}
		g := Group{Cause: cause, N: n, Rows: rows[cause]}
		g.What, g.Next = advice(&r.Run, cause, g.Rows)
		groups = append(groups, g)
	}
	slices.SortStableFunc(groups, func(x, y Group) int { return int(min(1, max(-1, y.N-x.N))) })
	return groups
}

// advices explain each cause and name the next step: sync, repair, look (at what sync
// would do), or lint (for mistakes of the Source).
var advices = map[string]struct{ what, do string }{
	CauseTemporary: {"the server was not reachable, too slow or busy", "sync"},
	CauseRefused:   {"your settings do not allow the request", "sync"},
	CauseNotFound:  {"the Source lists them, but its server does not have them", "lint"},
	CauseDenied:    {"the server requires credentials, or other ones: give them with --netrc, --bearer-file or --header-file", "sync"},
	CauseTooLarge:  {"the server sent more bytes than the Source lists or this program accepts", "lint"},
	CauseProtocol:  {"the server's response does not fit a request for the resource", "sync"},
	CauseMismatch:  {"the server sent other bytes than the Source lists; the mirror keeps the previous bytes", "lint"},
	CauseDocument:  {"a document of the Source cannot be used", "lint"},
	CauseOccupied:  {"a file that is not the mirror's is in the way: move it elsewhere, or sync with --adopt", "sync"},
	CauseNoPlace:   {"the mirror cannot make a path from the URI: leave it out with --exclude", "sync"},
	CauseMoved:     {"the resource changed during the run", "sync"},
	CauseOther:     {"the cause is this machine, not the Source: check the disk space and the permissions of the mirror", "sync"},
	CauseMissing:   {"missing in the mirror", "repair"},
	CauseDifferent: {"the mirror has other bytes than the Source", "repair"},
	CauseUnread:    {"the mirror's bytes could not be read: check its disk", "repair"},
	CauseExtra:     {"the mirror has resources that the Source does not list", "look"},
}

// CauseNames returns the sorted causes that a run can record.
func CauseNames() []string { return slices.Sorted(maps.Keys(advices)) }

// advice explains a cause and returns the command to run next.
func advice(run *Run, cause string, rows []Row) (what, next string) {
	a := advices[cause]
	var flags []string
	for _, r := range rows {
		if r.Hint != "" && !slices.Contains(flags, r.Hint) && len(flags) < 5 {
			flags = append(flags, r.Hint)
		}
	}
	switch {
	case a.do == "lint" && len(flags) == 0:
		return a.what, webpage.Shell("instep", "lint", run.Source)
	case a.do == "repair":
		return a.what, again(run, "audit", "--repair")
	case a.do == "look":
		return a.what, again(run, "sync", "-n")
	}
	var allow []string
	for _, f := range flags {
		allow = append(allow, strings.Fields(f)...)
	}
	return a.what, again(run, "sync", allow...)
}

// ofOneCommand maps the flags that only sync or only audit has to that command.
var ofOneCommand = map[string]string{
	"--max-delete": "sync", "--max-time": "sync", "--max-transfer": "sync", "--keep-deleted": "sync", "--keep-versions": "sync",
	"--prefer": "sync", "--duplicates": "sync", "--adopt": "sync", "--layout": "sync", "--at": "sync",
	"--quick": "audit", "--repair": "audit",
}

// again returns the shell command for running command on the Source and the mirror of a
// run, with those options of the run that command also has.
func again(run *Run, command string, flags ...string) string {
	line := append([]string{"instep", command}, flags...)
	for _, o := range run.Options {
		name, _, _ := strings.Cut(o, "=")
		if of := ofOneCommand[name]; (of == "" || of == command) && !given(flags, o) {
			line = append(line, o)
		}
	}
	return webpage.Shell(append(line, run.Source, run.Dir)...)
}

// given reports whether flags already contain an option, as --name or --name=value.
// Another value of the same option does not count: several origins can be allowed.
func given(flags []string, option string) bool {
	name, value, valued := strings.Cut(option, "=")
	for i, f := range flags {
		if f == name && (!valued || i+1 < len(flags) && flags[i+1] == value) {
			return true
		}
	}
	return false
}
