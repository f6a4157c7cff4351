package source

import (
	"context"
	"html/template"
	"io"
	"strconv"
	"time"

	"instep/resourcesync"
)

// maxPageSets bounds the sets that the page about a Source names: those of more are in
// the Source Description.
const maxPageSets = 1000

// aboutPage is the human view of a Source: no script, nothing from elsewhere.
type aboutPage struct {
	About
	BaseURL, Generator, DescriptionURI string
	Sets                               []aboutSet
	More                               int // sets that are not named
}

type aboutSet struct {
	Name                 string // "" is the default set
	Page, CapabilityList string
}

// setPage is the human view of a set.
type setPage struct {
	About
	Name                             string
	BaseURL, Generator, Source, Self string
	Resources, Bytes                 string
	At, ChangedAt                    time.Time
	Capabilities                     []pageLink
	Sitemap                          string
}

type pageLink struct{ Name, URI string }

const pageHead = `{{define "head"}}<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{{with .Generator}}<meta name="generator" content="{{.}}">
{{end -}}
{{end}}{{define "terms"}}{{with .Description}}<p>{{.}}</p>
{{end}}{{if or .Contact .Licence}}<dl>
{{with .Contact}}<dt>Contact</dt><dd>{{.}}</dd>
{{end}}{{with .Licence}}<dt>Licence</dt><dd>{{.}}</dd>
{{end}}</dl>
{{end}}{{end}}{{define "time"}}<time datetime="{{.Format "2006-01-02T15:04:05Z"}}">{{.Format "2 January 2006, 15:04:05 UTC"}}</time>{{end}}`

var aboutTemplate = template.Must(template.Must(template.New("about").Parse(pageHead)).Parse(
	`{{template "head" .}}<title>{{with .Title}}{{.}}{{else}}A collection that can be kept in step{{end}}</title>
</head>
<body>
<main>
<h1>{{with .Title}}{{.}}{{else}}A collection that can be kept in step{{end}}</h1>
{{template "terms" .About}}<p>What lies below <a href="{{.BaseURL}}">{{.BaseURL}}</a> is published with the
ResourceSync Framework (ANSI/NISO Z39.99): anybody may copy it and keep the copy up to date.</p>
<h2>Sets</h2>
<ul>
{{range .Sets}}<li><a href="{{.Page}}">{{with .Name}}{{.}}{{else}}The set without a name{{end}}</a> (<a href="{{.CapabilityList}}">Capability List{{with .Name}} of {{.}}{{end}}</a>)</li>
{{end}}</ul>
{{with .More}}<p>{{.}} more sets are named in the Source Description.</p>
{{end}}<h2>For programs</h2>
<p>Begin with the <a href="{{.DescriptionURI}}">Source Description</a>. One way to make a copy and keep it up to date:</p>
<pre><code>instep sync {{.BaseURL}} DIRECTORY</code></pre>
</main>
</body>
</html>
`))

var setTemplate = template.Must(template.Must(template.New("set").Parse(pageHead)).Parse(
	`{{template "head" .}}<title>{{template "name" .}}</title>
</head>
<body>
<main>
<h1>{{template "name" .}}</h1>
{{template "terms" .About}}<dl>
<dt>Resources</dt><dd>{{.Resources}}, {{.Bytes}} bytes</dd>
<dt>Listed as of</dt><dd>{{template "time" .At}}</dd>
{{if not .ChangedAt.IsZero}}<dt>Last change</dt><dd>{{template "time" .ChangedAt}}</dd>
{{end}}</dl>
<h2>What is offered</h2>
<ul>
{{range .Capabilities}}<li><a href="{{.URI}}">{{.Name}}</a></li>
{{end}}{{with .Sitemap}}<li><a href="{{.}}">Sitemap</a></li>
{{end}}</ul>
<h2>How to keep a copy</h2>
<pre><code>instep sync {{.Self}} DIRECTORY</code></pre>
<p>The set belongs to <a href="{{.Source}}">this Source</a>, at {{.BaseURL}}.</p>
</main>
</body>
</html>
{{define "name"}}{{if .Title}}{{.Title}}{{else if .Name}}The set {{.Name}}{{else}}A set that can be kept in step{{end}}{{end}}`))

// capabilityNames are what people are told of capabilities.
var capabilityNames = map[resourcesync.Capability]string{
	resourcesync.CapabilityResourceList:        "Resource List: what there is",
	resourcesync.CapabilityResourceDump:        "Resource Dump: all of it in packages",
	resourcesync.CapabilityChangeList:          "Change List: what has changed",
	resourcesync.CapabilityChangeDump:          "Change Dump: what has changed, in packages",
	resourcesync.CapabilityResourceListArchive: "Archive of Resource Lists",
	resourcesync.CapabilityResourceDumpArchive: "Archive of Resource Dumps",
	resourcesync.CapabilityChangeListArchive:   "Archive of Change Lists",
	resourcesync.CapabilityChangeDumpArchive:   "Archive of Change Dumps",
}

// about makes the page for people that the Source Description links as describedby.
func (m *maker) about(ctx context.Context, sets []string) error {
	page := aboutPage{About: m.p.About, BaseURL: m.p.BaseURL, Generator: m.p.Generator, DescriptionURI: m.l.descriptionURI()}
	for _, set := range sets[:min(len(sets), maxPageSets)] {
		l := m.p.layout(set)
		page.Sets = append(page.Sets, aboutSet{Name: set, Page: l.uri(l.page()), CapabilityList: l.capabilityListURI()})
	}
	page.More = len(sets) - len(page.Sets)
	return m.st.add(ctx, Document{Key: aboutKey, Rank: rankPages}, func(w io.Writer) error {
		return aboutTemplate.Execute(w, page)
	})
}

// page makes the page for people that the Capability List links as describedby.
func (m *maker) page(ctx context.Context, _ Update) error {
	page := setPage{
		About: m.policy.About, Name: m.l.set, BaseURL: m.p.BaseURL, Generator: m.p.Generator,
		Source: m.l.uri(aboutKey), Self: m.l.capabilityListURI(),
		Resources: strconv.FormatInt(m.pub.Resources, 10), Bytes: strconv.FormatInt(m.pub.Bytes, 10),
		At: m.pub.ListAt, ChangedAt: m.pub.ChangedAt,
	}
	for _, o := range m.pub.Offers {
		page.Capabilities = append(page.Capabilities, pageLink{capabilityNames[o.Capability], o.URI})
	}
	if n := len(m.pub.SitemapKeys); n > 0 {
		page.Sitemap = m.l.uri(m.pub.SitemapKeys[n-1])
	}
	return m.st.add(ctx, Document{Key: m.l.page(), Rank: rankPages}, func(w io.Writer) error {
		return setTemplate.Execute(w, page)
	})
}
