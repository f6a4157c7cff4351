package destination

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"instep/harvest"
	"instep/internal/packages"
	"instep/resourcesync"
	"instep/transfer"
)

// The mirror commits resources in groups, called batches. After a crash, at most 500
// resources or 64 MiB have to be fetched again: one batch of half that size is filled
// while another is committed.
const (
	halfResources = 250
	halfBytes     = 32 << 20
	requestSize   = 4       // number of resources without a request of their own that fill a batch as much as one resource with a request
	textRoom      = 2 << 10 // number of bytes of other attributes (harvest.Remainder) that fill a batch as much as one resource without a request
)

// maxOutage is the number of consecutive resources without an answer after which a run
// ends. Retries are counted separately: after maxOutage consecutive retries without an
// answer, the run skips the other retries.
const maxOutage = 20

// Report is the result of a run.
type Report struct {
	Sets    []*SetReport
	Orphans []Orphan
}

// SetReport is the result of a run for one set.
type SetReport struct {
	SetState
	Counts                          // counts of the changes that are durable in the mirror
	Failed     int64                // number of resources that could not be fetched; the next run tries them again
	Failures   []Failure            // the first failures
	Withheld   int64                // number of deletions that need consent
	Hash       string               // hash of the planned deletions; a person gives it to consent to them
	Guard      Guard                // numbers that explain why the deletions were withheld
	Bytes      int64                // bytes transferred and verified
	Copied     int64                // bytes copied from other resources of the mirror
	Weak       int64                // resources that were verified only by md5, sha-1 or sha-224
	Unverified int64                // resources stored without verification, because the Source gives neither a length nor a digest
	Patches    transfer.PatchCounts // numbers of patched resources, and of bytes that patches saved or wasted
	Via        map[Via]int64        // number of stored resources for each way of transfer
}

// Failure is a resource that could not be fetched.
type Failure struct {
	URI string
	Err error
}

// maxFailures is the maximum length of SetReport.Failures; SetReport.Failed counts all.
const maxFailures = 1000

// ErrOutage means that the run ended because the Source stopped answering.
var ErrOutage = errors.New("the Source stopped answering")

// Apply carries out the plan p. The Report is valid even with an error. An error means
// that the run ended early: the Source stopped answering (ErrOutage), the run reached a
// limit (ErrMaxTransfer, ErrMaxTime), the mirror cannot be written, or ctx ended. Then
// fetched resources are kept and the cursor does not move. If resources have changed
// since p was made, Apply also applies the Source's newer changes, up to 3 times.
func (d *Destination) Apply(ctx context.Context, p *Plan) (*Report, error) {
	rep := &Report{}
	if err := d.keepMoment(ctx, p); err != nil {
		return rep, err
	}
	budget, duplicates := d.budget(), &transfer.Origins{When: d.Duplicates}
	for _, sp := range p.Sets {
		r := d.newRunner(sp, budget, duplicates, &SetReport{
			SetState: sp.SetState, Counts: Counts{Same: sp.Same, Skipped: sp.Skipped}, Via: map[Via]int64{},
		})
		rep.Sets = append(rep.Sets, r.rep)
		if err := r.run(ctx); err != nil {
			return rep, err
		}
		if err := r.catchUp(ctx); err != nil {
			return rep, err
		}
	}
	rep.Orphans = p.Orphans
	return rep, d.keepOrphans(ctx, p)
}

type runner struct {
	d     *Destination
	sp    *SetPlan
	rep   *SetReport
	slots *semaphore.Weighted // limits the concurrent transfers

	budget   *budget // limits of the run, shared by all sets
	odd      tally
	patcher  *transfer.Patcher
	fetcher  *transfer.Fetcher
	unpacker *packages.Unpacker // nil if no resource of the plan comes from a package

	mu            sync.Mutex
	err           error // first error that ends the run early
	doubt         error // first error that shows that a document of the Source is wrong
	failuresInRow int   // number of consecutive requests for resources that the Source did not answer
	retryFailures int   // number of consecutive retries (of resources that failed in earlier runs) that the Source did not answer
	cancel        context.CancelFunc
}

func (d *Destination) newRunner(sp *SetPlan, budget *budget, duplicates *transfer.Origins, rep *SetReport) *runner {
	r := &runner{d: d, sp: sp, budget: budget, rep: rep, patcher: transfer.NewPatcher(d.Client, d.Spool)}
	r.fetcher = &transfer.Fetcher{
		Client: d.Client, Spool: d.Spool, Parts: d.Mirror, Set: sp.Set, AsOf: sp.asOf, Duplicates: duplicates,
		Tell: func(text string) { d.note(sp.Set, text) }, Odd: r.odd.add, Came: budget.came,
	}
	return r
}

func (r *runner) run(ctx context.Context) error {
	r.slots = semaphore.NewWeighted(int64(r.d.workers()))
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	r.cancel = cancel
	// fetched resources are committed even if the run is interrupted
	save := context.WithoutCancel(ctx)
	if len(r.sp.planned) > 0 {
		r.unpacker = r.d.transport().Unpack(work, r.d.reader(&scope{}), r.sp.Set, r.sp.planned, r.sp.members(), r.recordDoubt)
		defer r.unpacker.Close()
	}

	if err := r.d.keepSilent(save, r.sp); err != nil {
		return err
	}
	q := &queue{r: r, save: save}
	for a, err := range r.sp.Actions() {
		if err != nil {
			r.stop(err)
		}
		if stopped, _ := r.troubles(); stopped != nil || work.Err() != nil {
			break
		}
		if err := q.add(work, a); err != nil {
			r.stop(err)
		}
	}
	if work.Err() == nil {
		if err := q.flush(work); err != nil {
			r.stop(err)
		}
	}
	if ctx.Err() != nil {
		r.stop(context.Cause(ctx))
	}
	q.finish()
	r.odd.note(r.d, r.sp.Set)
	r.reportPatches()
	stopped, doubt := r.troubles()
	r.rep.Partial = cmp.Or(r.rep.Partial, doubt)
	if stopped != nil {
		return stopped
	}
	return r.withhold(save)
}

func (r *runner) withhold(ctx context.Context) error {
	if !r.sp.Withheld {
		return nil
	}
	r.rep.Withheld, r.rep.Hash, r.rep.Guard = r.sp.Deleted, r.sp.Hash, r.sp.Guard
	text := harvest.Counted(r.sp.Members, "%d of %d {resource|resources} of %s would be deleted", r.sp.Deleted, r.sp.Members, r.sp.Set)
	return r.d.Mirror.Withhold(ctx, r.sp.Set, r.sp.Hash, text)
}

func (r *runner) stop(err error) {
	if r.startNoMore(err) {
		r.cancel()
	}
}

// startNoMore ends the run with an error, but lets started transfers end. It returns
// false if the run already has an error.
func (r *runner) startNoMore(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false
	}
	r.err = err
	return true
}

// allowedMove returns nil, so that the cursor does not move, unless the whole plan was
// carried out and its documents were right.
func (r *runner) allowedMove() *CursorMove {
	if stopped, doubt := r.troubles(); stopped != nil || doubt != nil {
		return nil
	}
	return r.sp.move
}

func (r *runner) recordDoubt(q resourcesync.Quirk, err error) {
	r.d.quirk(q, r.sp.Set, err.Error())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doubt == nil {
		r.doubt = err
	}
}

func (r *runner) troubles() (stopped, doubt error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err, r.doubt
}
