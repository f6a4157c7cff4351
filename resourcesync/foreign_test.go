package resourcesync

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestForeignElementsAreKept(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"prefix of the root", `<i:image><i:loc>https://example.org/a.png</i:loc></i:image>`,
			`<i:image xmlns:i="urn:image"><i:loc>https://example.org/a.png</i:loc></i:image>`},
		{"several", `<i:a/> <!-- c --> <i:b></i:b>`, `<i:a xmlns:i="urn:image"/><i:b xmlns:i="urn:image"></i:b>`},
		{"default namespace", `<a xmlns="urn:x"><b/></a>`, `<a xmlns="urn:x"><b/></a>`},
		{"namespaces of attributes", `<a xmlns="urn:x" i:b="1" c="2" xml:lang="de"/>`, `<a xmlns="urn:x" xmlns:i="urn:image" i:b="1" c="2" xml:lang="de"/>`},
		{"prefix bound again", `<i:a><i:b xmlns:i="urn:other"/><i:c/></i:a>`, `<i:a xmlns:i="urn:image"><i:b xmlns:i="urn:other"/><i:c/></i:a>`},
		{"ours within", `<i:a><loc>x</loc><rs:md length="1"/></i:a>`,
			`<i:a xmlns:i="urn:image"><loc xmlns="` + nsSitemap + `">x</loc><rs:md xmlns:rs="` + nsRS + `" length="1"/></i:a>`},
		{"none within", `<i:a><b xmlns=""><c/></b></i:a>`, `<i:a xmlns:i="urn:image"><b xmlns=""><c/></b></i:a>`},
		{"text", "<i:a b='&quot;&#9;\n'> x &lt;<![CDATA[<&]]>&#13; \n<i:b/> y</i:a>",
			"<i:a xmlns:i=\"urn:image\" b=\"&quot;&#9; \"> x &lt;&lt;&amp;&#13; \n<i:b/> y</i:a>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const root = `<urlset xmlns="` + nsSitemap + `" xmlns:rs="` + nsRS + `" xmlns:i="urn:image"><rs:md capability="description"/>`
			h, entries, notes, err := decode(root+`<url><loc>https://example.org/a</loc>`+c.in+`</url>`+c.in+end1, WithTolerance(Strict))
			if err != nil || len(notes) > 0 {
				t.Fatalf("%v, notes %v", err, notes)
			}
			if diff := cmp.Diff(entries[0].Foreign, c.want); diff != "" {
				t.Errorf("of the entry (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(h.Foreign, c.want); diff != "" {
				t.Errorf("of the root (-got +want):\n%s", diff)
			}
			// Written and read again, in a document that has other prefixes.
			h2, entries2, _, err := decode(string(encode(t, h, entries...)), WithTolerance(Strict))
			if err != nil || h2.Foreign != c.want || entries2[0].Foreign != c.want {
				t.Errorf("again: got %q and %q, %v", h2.Foreign, entries2[0].Foreign, err)
			}
		})
	}
	_, entries, notes, err := decode(list1 + `<url><loc>https://example.org/a</loc><title>x</title><rs:thing/><a xmlns=""/></url>` + end1)
	if err != nil || entries[0].Foreign != "" || len(notes) != 3 {
		t.Errorf("elements not defined in our namespaces: got %q, notes %v, %v", entries[0].Foreign, notes, err)
	}
}
