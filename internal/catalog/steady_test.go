package catalog

import (
	"errors"
	"testing"
	"time"
)

// A catalog that nobody writes to is read as a still file: who begins to write then is seen.
func TestAReaderLearnsThatACatalogWasWrittenTo(t *testing.T) {
	c := open(t)
	set(t, c, "one")
	path := c.path
	reader := func() *Catalog {
		t.Helper()
		r, err := OpenReadOnly(t.Context(), path, "", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	beside := reader() // the log has something in it: SQLite keeps both apart
	set(t, c, "two")
	if err := beside.Steady(); err != nil {
		t.Errorf("read beside a run: %v", err)
	}
	if sets, err := beside.Facts.Sets(t.Context()); err != nil || len(sets) != 2 {
		t.Errorf("read beside a run: %v, %v; want two sets", sets, err)
	}
	if err := errors.Join(beside.Close(), c.Close()); err != nil {
		t.Fatal(err)
	}

	still := reader()
	if err := still.Steady(); err != nil {
		t.Errorf("nobody has written: %v", err)
	}
	writer, err := Open(t.Context(), Options{Path: path, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	set(t, writer, "three")
	if err := still.Steady(); !errors.Is(err, ErrWritten) {
		t.Errorf("while a run writes: got %v, want ErrWritten", err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := still.Steady(); !errors.Is(err, ErrWritten) {
		t.Errorf("after a run has written: got %v, want ErrWritten", err)
	}
	if err := reader().Steady(); err != nil {
		t.Errorf("opened after the run: %v", err)
	}
}
