package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecide(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	now := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	set := func(resources, since int64, change func(*situation)) situation {
		s := situation{
			published: true, now: now, resources: resources, sinceList: since, sinceDump: since, fresh: since > 0,
			listAt: now.Add(-hour), dumpAt: now.Add(-hour), openFrom: now.Add(-hour), listed: since, keepChanges: 30 * day,
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	with := func(change func(*situation)) situation {
		return set(smallSet*2, 1, func(s *situation) { s.dumps, s.dumping = true, true; change(s) })
	}
	var (
		nothing  = decision{}
		changes  = decision{publish: true}
		list     = decision{publish: true, snapshot: true}
		packages = decision{publish: true, dumps: true}
		listDump = decision{publish: true, snapshot: true, dump: true, dumps: true}
		dump     = decision{publish: true, dump: true, dumps: true}
	)
	for name, c := range map[string]struct {
		in   situation
		want decision
	}{
		"first publication":           {situation{now: now}, list},
		"first, with dumps":           {situation{now: now, dumps: true}, listDump},
		"nothing changed":             {set(9, 0, nil), nothing},
		"nothing changed, old list":   {set(9, 0, func(s *situation) { s.listAt, s.rebaseEvery = now.Add(-90*day), day }), nothing},
		"asked for":                   {set(smallSet*2, 0, func(s *situation) { s.asked = true }), list},
		"documents to write anew":     {set(smallSet*2, 0, func(s *situation) { s.rewrite = true }), list},
		"other words":                 {set(smallSet*2, 0, func(s *situation) { s.reword = true }), changes},
		"small set":                   {set(smallSet, 1, nil), list},
		"large set, few changes":      {set(smallSet*2, 5, nil), changes},
		"a tenth":                     {set(smallSet*2, smallSet/5, nil), changes},
		"more than a tenth":           {set(smallSet*2, smallSet/5+1, nil), list},
		"emptied":                     {set(0, 3, nil), list},
		"small set, soon after":       {set(9, 1, func(s *situation) { s.rest = 2 * hour }), changes},
		"small set, in time":          {set(9, 1, func(s *situation) { s.rest = hour }), list},
		"postponed, nothing new":      {set(9, 1, func(s *situation) { s.fresh = false }), list},
		"asked for, soon after":       {set(9, 1, func(s *situation) { s.rest, s.asked = 2*hour, true }), list},
		"schedule":                    {set(smallSet*2, 1, func(s *situation) { s.rebaseEvery = hour }), list},
		"schedule, not yet":           {set(smallSet*2, 1, func(s *situation) { s.rebaseEvery = 2 * hour }), changes},
		"lists kept for its sake":     {set(smallSet*2, 1, func(s *situation) { s.listAt = now.Add(-31 * day) }), list},
		"old list closes":             {set(smallSet*2, 1, func(s *situation) { s.fresh, s.rotateEvery = false, hour }), decision{publish: true, rotate: true}},
		"young list stays open":       {set(smallSet*2, 1, func(s *situation) { s.fresh, s.rotateEvery = false, 2*hour }), nothing},
		"old empty list stays open":   {set(smallSet*2, 0, func(s *situation) { s.rotateEvery = hour }), nothing},
		"small set with dumps":        {set(20, 1, func(s *situation) { s.dumps, s.dumping = true, true }), decision{publish: true, snapshot: true, dumps: true}},
		"dumps, few changes":          {with(func(*situation) {}), packages},
		"dumps, more than a tenth":    {with(func(s *situation) { s.sinceDump = smallSet }), dump},
		"dumps by schedule":           {with(func(s *situation) { s.dumpEvery = hour }), dump},
		"dumps asked for":             {with(func(s *situation) { s.asked = true }), listDump},
		"dumps switched on":           {with(func(s *situation) { s.dumping = false }), dump},
		"dumps ended, soon after one": {with(func(s *situation) { s.dumping, s.rest = false, 2*hour }), changes},
		"dumps unwanted":              {with(func(s *situation) { s.dumps = false }), changes},
	} {
		if diff := cmp.Diff(c.want, c.in.decide(), cmp.AllowUnexported(decision{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
