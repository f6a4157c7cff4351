package blob

import "instep/internal/durable"

// Disk returns the calls by which d makes things durable.
func (d *Dir) Disk() durable.Disk { return d.disk }

// SetDisk replaces them. No batch may be open.
func (d *Dir) SetDisk(disk durable.Disk) { d.disk = disk }

// BreakObject lets all later writes to an object of a Dir fail.
func BreakObject(o Object) {
	d := o.(*dirObject)
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.f.Close()
}
