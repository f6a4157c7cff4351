package lint

import (
	"bytes"
	"context"
	"testing"
)

// FuzzDocument: whatever is checked, each finding is of a rule of the profile and has
// a place in the document, a broken document is never clean, and without its check a
// rule is not found.
func FuzzDocument(f *testing.F) {
	for _, x := range readFixtures(f) {
		if len(x.text) < 4<<10 && !bytes.Contains(x.text, []byte("#repeat")) {
			f.Add(declareNamespaces(x.text), uint8(len(x.rules[0])))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, pick uint8) {
		profiles := []Profile{Profile11, Profile10, ProfileArchives, ProfileDLib, ProfileAuto}
		c := Checker{Profile: profiles[int(pick)%len(profiles)], Derived: true}
		var found []Finding
		c.Report = func(f Finding) { found = append(found, f) }
		d, err := c.Document(context.Background(), "doc.xml", bytes.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(doc, []byte("\n")) + bytes.Count(doc, []byte("\r")) + 1
		for _, f := range found {
			rule, ok := Lookup(f.Rule)
			if !ok || rule.Level != f.Level || f.Message == "" || f.Line < 0 || f.Line > lines {
				t.Errorf("finding %+v", f)
			}
		}
		if !d.Complete && len(found) == 0 {
			t.Errorf("incomplete, and nothing is found: %+v", d)
		}
		if len(found) == 0 {
			return
		}
		id := found[int(pick)%len(found)].Rule
		c.Disabled = map[string]bool{id: true}
		c.Report = func(f Finding) {
			if f.Rule == id {
				t.Errorf("found although it is disabled: %+v", f)
			}
		}
		if _, err := c.Document(context.Background(), "doc.xml", bytes.NewReader(doc)); err != nil {
			t.Fatal(err)
		}
	})
}
