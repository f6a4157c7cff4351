package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"instep/destination"
)

// However much a Source gives to tell of, and however often, it does not fill the log.
func TestNotesOfAWatchAreBoundedAndToldOnce(t *testing.T) {
	var messages bytes.Buffer
	a := &app{out: &output{stdout: io.Discard, stderr: &messages}}
	f := &follower{syncer: &syncer{a: a}}
	for run, want := range []int{maxNotes + 1, 0, 0} {
		messages.Reset()
		f.notes, f.fresh = f.fresh, map[string]bool{}
		for i := range 3 * maxNotes {
			f.observe(destination.Event{Kind: destination.EventNote, Text: fmt.Sprintf("note %d", i)})
		}
		if got := strings.Count(messages.String(), "\n"); got != want {
			t.Errorf("run %d: told %d notes, want %d", run, got, want)
		}
	}
}
