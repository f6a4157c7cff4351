package runs

import (
	"errors"
	"sync"
	"time"

	"instep/destination"
	"instep/fetch"
)

// Log records a run from the events of a Destination (Event) and the additions of its
// caller. It can be filled before the mirror exists whose state will contain the
// record. Its methods are safe for concurrent use.
type Log struct {
	Repairs bool // the run is an audit with repairs: a resource that it found wrong may be right at the end

	run Run
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	rec     *Recorder  // nil before Begin, and if no record can be stored
	pending []Row      // rows added before Begin
	changed bool       // the run changed the mirror
	early   error      // why the run ended early, if its summary does not contain the reason
}

// maxPending bounds the number of rows that are held until the mirror exists.
const maxPending = 1000

// NewLog returns the Log for a run that begins now. It writes nothing before Begin.
func NewLog(r Run, now func() time.Time) *Log { return &Log{run: r, now: now} }

// Begin starts the record, in the state directory of an existing mirror that may be
// written, with the rows added so far. The number of the run becomes higher than after,
// the last run in the mirror's history.
func (l *Log) Begin(state string, after int64) error {
	run := l.run
	run.ID = after
	rec, err := Begin(state, run, l.now)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec = rec
	for _, row := range l.pending {
		rec.Add(row)
	}
	l.pending = nil
	return nil
}

// ID returns the number of the run; 0 if it has no record.
func (l *Log) ID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec == nil {
		return 0
	}
	return l.rec.ID()
}

// Add adds a row. Before Begin it keeps at most 1,000 rows.
func (l *Log) Add(row Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.rec != nil:
		l.rec.Add(row)
	case len(l.pending) < maxPending:
		l.pending = append(l.pending, row)
	}
}

// Event records an event of a run if it belongs in the record.
func (l *Log) Event(e destination.Event) {
	switch e.Kind {
	case destination.EventPlanned:
		l.Add(Row{Kind: Set, Set: e.Set, Mode: string(e.Plan.Mode), Message: e.Plan.Why})
	case destination.EventNote:
		l.Add(Row{Kind: Note, Set: e.Set, Quirk: int(e.Quirk), Message: e.Text})
	case destination.EventFailed:
		l.Add(Row{
			Kind: Failure, Set: e.Set, Cause: CauseOf(e.Err), URI: e.Action.Want.URI, Message: e.Err.Error(), Hint: flagFor(e.Err),
		})
	case destination.EventVerdict:
		l.verdict(e)
	}
}

// verdict records a difference found by an audit; in a repair, only differences that
// remain.
func (l *Log) verdict(e destination.Event) {
	cause := verdictCauses[e.Verdict]
	if cause == "" || l.Repairs && !e.Again && e.Verdict != destination.VerdictExtra {
		return
	}
	row := Row{Kind: Failure, Set: e.Set, Cause: cause, URI: e.Action.Want.URI, Path: e.Path}
	if e.Err != nil {
		row.Message = e.Err.Error()
	}
	l.Add(row)
}

// flagFor returns the flag that would allow what our own policy refused; "" if there is
// none.
func flagFor(err error) string {
	var fe *fetch.Error
	switch {
	case !errors.As(err, &fe):
		return ""
	case fe.AllowOrigin != "":
		return "--allow-origin " + fe.AllowOrigin
	case fe.AllowPrivate != "":
		return "--allow-private " + fe.AllowPrivate
	}
	return ""
}

// Gap records that the changes of a set are partly unknown.
func (l *Log) Gap(set, text string) {
	l.Add(Row{Kind: Note, Set: set, Message: text, Hint: "--accept-gap"})
}

// Partial records that documents of a set could not be used.
func (l *Log) Partial(set string, err error) {
	l.Add(Row{Kind: Failure, Set: set, Cause: CauseDocument, Message: err.Error(), Hint: flagFor(err)})
}

// EndedBy records why the run ended early, although its caller has a summary.
func (l *Log) EndedBy(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.early = err
}

// Early returns the error given to EndedBy; nil if it was not called.
func (l *Log) Early() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.early
}

// Changed records that the run changed the mirror.
func (l *Log) Changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
}

// End completes the record, if one was begun. It sets Changed and Idle of the Outcome.
func (l *Log) End(o Outcome) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec == nil {
		return nil
	}
	o.Changed = l.changed
	o.Idle = o.Error == "" && l.idle(&o)
	err := l.rec.End(o)
	l.rec = nil
	return err
}

// idle reports whether a synchronisation found nothing to do or to report.
func (l *Log) idle(o *Outcome) bool {
	tally := l.rec.Tally()
	return l.run.Command == "sync" && o.ExitCode == 0 && len(tally.Causes)+len(tally.Quirks) == 0 &&
		o.Counts["created"]+o.Counts["updated"]+o.Counts["deleted"] == 0
}
