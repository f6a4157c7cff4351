package main

import "testing"

// TestAuditSentence: the first sentence of a report says what came out, whatever it was.
func TestAuditSentence(t *testing.T) {
	type counts map[string]int64
	for _, c := range []struct {
		status string
		counts counts
		want   string
	}{
		{"in-sync", counts{"same": 4012}, "The mirror is a complete and exact copy of all 4,012 resources of the Source: every byte was read and compared."},
		{"in-sync", counts{"same": 1}, "The mirror is a complete and exact copy of the 1 resource of the Source: every byte was read and compared."},
		{"in-sync", counts{}, "The mirror is a true copy of the Source, which lists no resources."},
		{"in-sync", counts{"same": 4012, "unread": 4000}, "The mirror is a complete copy of all 4,012 resources of the Source; for 4,000 of them only size and time were compared."},
		{"in-sync", counts{"same": 4000, "unverifiable": 12}, "The mirror holds all 4,012 resources of the Source, and no difference was found. 12 could not be verified."},
		{"not-in-sync", counts{"same": 4008, "missing": 3, "different": 1}, "The mirror is not a true copy of the Source: of 4,012 resources, 3 are missing in the mirror and 1 is different."},
		{
			"not-in-sync", counts{"same": 1, "missing": 1, "different": 1, "error": 1, "extra": 2, "unverifiable": 1},
			"The mirror is not a true copy of the Source: of 5 resources, 1 is missing in the mirror, 1 is different and 1 is unreadable. 2 more are in the mirror but no longer at the Source. 1 could not be verified.",
		},
		{"in-sync", counts{"same": 2, "kept": 1}, "The mirror is a complete and exact copy of all 2 resources of the Source: every byte was read and compared. 1 resource is kept in an earlier state by restore --keep."},
		{"not-in-sync", counts{"same": 1, "extra": 1}, "The mirror is not a true copy of the Source: 1 resource is in the mirror but no longer at the Source."},
		{"not-in-sync", counts{}, "It could not be shown that the mirror is a true copy: documents of the Source could not be used."},
		{"partial", counts{"same": 7}, "No difference was found in 7 resources, but part of the Source could not be compared."},
	} {
		tail := reportTail{Status: c.status}
		for name, n := range c.counts {
			tail.Totals = append(tail.Totals, reportTotal{name, n})
		}
		if got := auditSentence(tail); got != c.want {
			t.Errorf("%s %v:\ngot  %s\nwant %s", c.status, c.counts, got, c.want)
		}
	}
}
