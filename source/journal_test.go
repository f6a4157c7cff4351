package source_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"instep/blob"
	"instep/blob/blobtest"
	"instep/source"
	"instep/source/sourcetest"
)

func TestBucketJournal(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		sourcetest.RunJournal(t, func(*testing.T) func() source.Journal {
			b := blob.NewMem()
			return func() source.Journal { return source.NewJournal(b) }
		})
	})
	t.Run("in a directory", func(t *testing.T) {
		sourcetest.RunJournal(t, func(t *testing.T) func() source.Journal {
			dir := t.TempDir()
			var last *blob.Dir
			return func() source.Journal {
				if last != nil {
					if err := last.Close(); err != nil {
						t.Fatal(err)
					}
				}
				d, err := blob.OpenDir(dir, blob.DirOptions{})
				if err != nil {
					t.Fatal(err)
				}
				last = d
				return source.NewJournal(d)
			}
		})
	})
}

// Done is interrupted after each of its writes, and done again by the next process.
func TestBucketJournalFinishesWhatWasInterrupted(t *testing.T) {
	for step := range 9 {
		mem := blob.NewMem()
		ctx := t.Context()
		p := source.Publication{ID: 1, Documents: []source.Document{{Key: "a.xml", Length: 1}}, Items: []source.Item{{Kind: source.ItemChangeList, Number: 1}}}
		j := source.NewJournal(mem)
		if err := errors.Join(j.Commit(ctx, p), j.Done(ctx, p)); err != nil {
			t.Fatal(err)
		}
		p = source.Publication{
			ID: 2, Made: time.Unix(5, 0), Retired: []string{"a.xml"}, Documents: []source.Document{{Key: "b.xml", Length: 2}},
			Items: []source.Item{{Kind: source.ItemChangeList, Number: 2}}, Dropped: []source.ItemID{{Kind: source.ItemChangeList, Number: 1}},
		}
		if err := j.Commit(ctx, p); err != nil {
			t.Fatal(err)
		}
		faulty := source.NewJournal(blobtest.Faulty(mem, blobtest.At(blobtest.OpCommit, 1, blobtest.Fault{Steps: step})))
		if err := faulty.Done(ctx, p); !errors.Is(err, blobtest.ErrInjected) {
			t.Fatalf("after %d writes: got %v", step, err)
		}
		j = source.NewJournal(mem)
		last, done, err := j.Last(ctx, "")
		if err != nil || last.ID != 2 || done != (step == 8) { // the last of its eight writes says that it is done
			t.Fatalf("after %d writes: last is %d, done %t, %v", step, last.ID, done, err)
		}
		if err := j.Done(ctx, last); err != nil {
			t.Fatal(err)
		}
		var expired []string
		for key, err := range j.Expired(ctx, time.Unix(6, 0), 2) {
			if err != nil {
				t.Fatal(err)
			}
			expired = append(expired, key)
		}
		if !slices.Equal(expired, []string{"a.xml"}) {
			t.Errorf("after %d writes and another Done: retired %q", step, expired)
		}
	}
}
