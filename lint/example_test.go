package lint_test

import (
	"context"
	"fmt"
	"strings"

	"instep/lint"
)

func ExampleChecker_Document() {
	const document = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
        xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="https://museum.example.org/resourcesync/capabilitylist.xml"/>
  <rs:md capability="resourcelist"/>
  <url>
    <loc>https://museum.example.org/vase.jpg</loc>
    <rs:md hash="md5:9e107d9d372bb6826bd81d3542a419d6" length="43 bytes"/>
  </url>
</urlset>`
	c := lint.Checker{Report: func(f lint.Finding) {
		if f.Level == lint.Error {
			rule, _ := lint.Lookup(f.Rule)
			fmt.Printf("line %d: %s\n  %s\n", f.Line, f.Message, rule.Fix)
		}
	}}
	d, err := c.Document(context.Background(), "resourcelist.xml", strings.NewReader(document))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Kind, d.Entries)
	// Output:
	// line 8: length "43 bytes": expected a number of bytes; read as absent
	//   Write the number of bytes in digits alone, without a unit or separators.
	// line 2: the rs:md of the root has no at
	//   Add at, the moment when taking the snapshot began, to the rs:md of the root.
	// resourcelist 1
}
