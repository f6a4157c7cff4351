package source

import (
	"html/template"
	"io"
)

// aboutPage is the human view of a Source: no script, nothing from elsewhere.
type aboutPage struct {
	BaseURL, Generator, Description string
	Sets                            []aboutSet
}

type aboutSet struct {
	Name           string // "" is the default set
	CapabilityList string
}

var aboutTemplate = template.Must(template.New("about").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
{{with .Generator}}<meta name="generator" content="{{.}}">
{{end -}}
<title>A collection that can be kept in step</title>
</head>
<body>
<h1>A collection that can be kept in step</h1>
<p>The files below <a href="{{.BaseURL}}">{{.BaseURL}}</a> are published with the
ResourceSync Framework (ANSI/NISO Z39.99): anybody may copy them and keep the copy up to date.</p>
<ul>
<li><a href="{{.Description}}">Source Description</a></li>
{{range .Sets}}<li><a href="{{.CapabilityList}}">Capability List{{with .Name}} of the set {{.}}{{end}}</a></li>
{{end}}</ul>
<p>One way to do it: <code>instep sync {{.BaseURL}} DIRECTORY</code></p>
</body>
</html>
`))

func (a aboutPage) write(w io.Writer) error { return aboutTemplate.Execute(w, a) }
