package where

import "testing"

// Whatever the condition and the record are, there is an answer without a panic, and a second
// evaluation gives the same.
func FuzzCondition(f *testing.F) {
	f.Add("//title=Bruges", sample)
	f.Add(`//m:title[@kind="short"]=B=1`, sample)
	f.Add("(//title | //m:title)[last()]", sample)
	f.Add("//a[starts-with(., 1)]", "<a>1</a>")
	f.Add("//*[namespace-uri()='']/@*", `<a b="c" xmlns:d="e" d:f=""/>`)
	f.Fuzz(func(t *testing.T, condition, text string) {
		c, err := parseCondition(condition)
		if err != nil || len(text) > 1<<12 {
			return
		}
		r, err := parseRecord([]byte(text))
		if err != nil {
			return
		}
		w := &work{left: 1 << 16}
		first, err := c.holds(r, w)
		if err != nil {
			return
		}
		if second, err := c.holds(r, &work{left: 1 << 16}); err != nil || second != first {
			t.Errorf("%q: %v, then %v, %v", condition, first, second, err)
		}
	})
}
