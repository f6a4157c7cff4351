package watch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"instep/internal/publish"
)

// session records when it is asked to publish.
type session struct {
	begin time.Time
	at    []time.Duration
}

func (s *session) Publish(_ context.Context, what publish.What) (publish.Report, error) {
	if what.Paths != nil {
		panic("a mirror was published in part")
	}
	s.at = append(s.at, time.Since(s.begin))
	return publish.Report{}, nil
}

// TestAMirrorIsPublishedAfterEachRun: soon after the text of its runs changes, and no more
// often; an error that stays is told once.
func TestAMirrorIsPublishedAfterEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &session{begin: time.Now()}
		since := func() time.Duration { return time.Since(s.begin) }
		var warned []error
		runs := func(context.Context) (string, error) {
			switch d := since(); {
			case d >= 10*time.Minute && d < 20*time.Minute:
				return "", errors.New("the catalog cannot be read")
			default:
				return (d / (15 * time.Minute)).String(), nil
			}
		}
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, s, Options{Dir: "nowhere", Every: 5 * time.Second, Rescan: time.Hour, Runs: runs, Now: time.Now,
				Report: func(*publish.Report) {}, Warn: func(err error) { warned = append(warned, err) }})
		}()
		time.Sleep(50 * time.Minute) // of the bubble: it takes no time
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i := range s.at {
			s.at[i] = s.at[i].Truncate(time.Minute)
		}
		// the run of the fifteenth minute is seen when the catalog can be read again
		if want := []time.Duration{0, 20 * time.Minute, 30 * time.Minute, 45 * time.Minute}; !slices.Equal(s.at, want) || len(warned) != 1 {
			t.Errorf("published at %v with warnings %v, want %v with one", s.at, warned, want)
		}
	})
}
