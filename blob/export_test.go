package blob

import "instep/internal/durable"

// Disk returns the calls by which d makes things durable.
func (d *Dir) Disk() durable.Disk { return d.disk }

// SetDisk replaces them. No batch may be open.
func (d *Dir) SetDisk(disk durable.Disk) { d.disk = disk }

// SetNameless sets how many files without a name d may have open. No object may be.
func (d *Dir) SetNameless(n int) { d.nameless = make(chan struct{}, n) }

// Nameless returns how many it has open.
func (d *Dir) Nameless() int { return len(d.nameless) }

// BreakObject lets all later writes to an object of a Dir fail.
func BreakObject(o Object) {
	d := o.(*dirObject)
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.f.Close()
}
