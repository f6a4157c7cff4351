package sim

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

type member struct {
	name   string
	method uint16
	data   []byte
}

const manifestName = "manifest.xml"

// The switches in this file do not change packages that are larger than maxContent.

var packageQuirks = []*Switch{
	inPackages("52", "names of package members begin with a slash, and the manifest is the last member", nil, func(m []member) []member {
		for i := range m {
			if m[i].name != manifestName {
				m[i].name = "/" + m[i].name
			}
		}
		slices.SortStableFunc(m, func(a, b member) int { return isManifest(a) - isManifest(b) })
		return m
	}),
	inPackages("53", "paths in manifests do not begin with a slash", func(d *document) {
		for _, n := range d.allMD() {
			n.change("path", func(s string) string { return strings.TrimPrefix(s, "/") })
		}
	}, nil),
	inDocuments("54", "the copy of a manifest beside its package lacks entries", func(_ *call, d *document) {
		if strings.HasSuffix(d.kind, "-manifest") && len(d.entries) > 0 {
			d.entries = d.entries[1:]
		}
	}),
	inPackages("55", "packages have an additional member and no manifest", nil, func(m []member) []member {
		m = slices.DeleteFunc(m, func(m member) bool { return m.name == manifestName })
		return append(m, member{name: "extra.tsv", data: []byte("a\tb\n")})
	}),
	inPackages("57", "manifests of Change Dumps have no change attribute", func(d *document) {
		for _, n := range d.allMD() {
			n.drop("change")
		}
	}, nil),
	inDocuments("58", "Resource Dumps link to local files of the Source's machine", func(c *call, d *document) {
		if d.is("resourcedump") {
			d.locs(func(uri string) string { return "file:///var/dumps/" + strings.TrimPrefix(uri, c.base()) })
		}
	}),
}

var packageFaults = []*Switch{
	withRows("DMP-01", inPackages("zip-slip", "names of members and paths lead out of the directory", func(d *document) {
		for _, n := range d.allMD() {
			n.change("path", func(s string) string { return "/../.." + s })
		}
	}, func(m []member) []member {
		for i := range m {
			if m[i].name != manifestName {
				m[i].name = "../../" + m[i].name
			}
		}
		return m
	})),
	withRows("DMP-02", inPackages("zip-bomb", "a member of each package is 64 MiB of zeros", nil, func(m []member) []member {
		return append(m, member{name: "bomb", method: zip.Deflate, data: make([]byte, 64<<20)})
	})),
	withRows("DMP-03", inPackages("zip-twice", "packages have each member twice", nil, func(m []member) []member {
		return append(m, m...)
	})),
	withRows("DMP-04", inPackages("zip-lacks-member", "packages lack the last member that the manifest names", nil, func(m []member) []member {
		return m[:max(1, len(m)-1)]
	})),
	withRows("DMP-06", inZips("zip-cut", "packages end in the middle", func(b []byte) ([]byte, error) { return b[:len(b)/2], nil })),
}

func withRows(rows string, sw *Switch) *Switch {
	sw.Rows = rows
	return sw
}

func isManifest(m member) int {
	if m.name == manifestName {
		return 1
	}
	return 0
}

// inPackages returns a switch that changes packages, and changes the published copies of
// their manifests in the same way.
func inPackages(name, says string, manifest func(*document), members func([]member) []member) *Switch {
	sw := inZips(name, says, func(b []byte) ([]byte, error) { return repack(b, manifest, members) })
	inner := sw.doc
	sw.doc = func(c *call, on Switched, d *document) {
		inner(c, on, d)
		if manifest != nil && strings.HasSuffix(d.kind, "-manifest") {
			manifest(d)
		}
	}
	return sw
}

// inZips returns a Switch with two effects: it changes the bytes of packages, and it removes
// their lengths and digests from the dumps that list them.
func inZips(name, says string, change func([]byte) ([]byte, error)) *Switch {
	return quirk(name, says, func(sw *Switch) {
		sw.doc = func(_ *call, _ Switched, d *document) {
			if d.is("resourcedump", "changedump") {
				for _, e := range d.entries {
					e.md().drop("hash", "length")
				}
			}
		}
		sw.answer = func(c *call, a *answer) {
			if !strings.HasSuffix(c.path, ".zip") {
				return
			}
			b, ok := a.content()
			if !ok {
				return
			}
			changed, err := change(b)
			if err != nil {
				a.respondWith(500)
				return
			}
			a.bytes(changed)
		}
	})
}

func repack(b []byte, manifest func(*document), change func([]member) []member) ([]byte, error) {
	members, err := unpack(b)
	if err != nil {
		return nil, err
	}
	for i := range members {
		if m := &members[i]; m.name == manifestName && manifest != nil {
			d, err := parseDocument(bytes.NewReader(m.data))
			if err != nil {
				return nil, err
			}
			manifest(d)
			m.data = d.bytes()
		}
	}
	if change != nil {
		members = change(members)
	}
	return packed(members)
}

func unpack(b []byte) ([]member, error) {
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	var members []member
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		members = append(members, member{f.Name, f.Method, data})
	}
	return members, nil
}

func packed(members []member) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range members {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(m.data); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

const oddPackageName = "package.zip"

// straightToPackage makes the Capability List link to a package instead of a Resource Dump.
func straightToPackage(c *call, _ Switched, d *document) {
	if d.is("capabilitylist") {
		d.entries = slices.DeleteFunc(d.entries, func(e entry) bool { return e.md().get("capability") == "resourcedump" })
		d.add(c.base()+oddPackageName, "capability", "resourcedump", "type", "application/zip")
	}
}

// oddPackage returns a package without resources.
func oddPackage(c *call) *answer {
	if c.path != oddPackageName {
		return nil
	}
	manifest := document{charset: "UTF-8", root: "urlset", rs: rsNamespace, head: []node{{name: "rs:md", attrs: []attr{
		{"capability", "resourcedump-manifest"}, {"at", c.now.Format("2006-01-02T15:04:05Z")},
	}}}}
	b, err := packed([]member{{name: manifestName, data: manifest.bytes()}})
	if err != nil {
		panic(fmt.Errorf("writing a package into memory: %w", err))
	}
	return newAnswer("application/zip", bytes.NewReader(b), int64(len(b)))
}
