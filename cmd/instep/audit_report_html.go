package main

import (
	"html/template"
	"io"

	"instep/destination"
	"instep/internal/spool"
)

// htmlForm is a page for people: the totals first, then what is not the same. It needs
// nothing from elsewhere, runs no script and prints.
type htmlForm struct {
	head  reportHead
	rows  *spool.File // of the table, which follows the totals
	count int64
}

func (f *htmlForm) begin(_ io.Writer, h reportHead) error {
	f.head, f.rows = h, spool.NewFile("", 0)
	return nil
}

func (f *htmlForm) row(_ io.Writer, r reportRow) error {
	if r.Verdict == destination.VerdictSame && !r.Again {
		return nil
	}
	f.count++
	return auditPage.ExecuteTemplate(escaping{f.rows}, "row", r)
}

func (f *htmlForm) end(w io.Writer, t reportTail) error {
	page := struct {
		reportHead
		reportTail
		Rows int64
	}{f.head, t, f.count}
	if err := auditPage.ExecuteTemplate(escaping{w}, "begin", page); err != nil {
		return err
	}
	if _, err := io.Copy(w, f.rows.Reader()); err != nil {
		return err
	}
	return auditPage.ExecuteTemplate(escaping{w}, "end", page)
}

func (f *htmlForm) digest(w io.Writer, sum string) error {
	return auditPage.ExecuteTemplate(w, "digest", sum)
}

func (f *htmlForm) close() error {
	if f.rows == nil {
		return nil
	}
	return f.rows.Close()
}

// pageFuncs are for all pages.
var pageFuncs = template.FuncMap{
	"mark":  func(v destination.Verdict) string { return verdictMarks[v] },
	"word":  func(status string) string { return words[status] },
	"shell": func(words []string) string { return shellLine(words...) },
}

// pageStyle is that of all pages: readable on paper and in the dark, and without colour.
const pageStyle = `{{define "style"}}<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 75rem; padding: 1rem; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; font-weight: bold; padding: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
.status { font-size: 1.25rem; font-weight: bold; }
code, pre { font-family: ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
@media print { body { max-width: none; } thead { display: table-header-group; } tr { break-inside: avoid; } }
</style>{{end}}{{define "time"}}<time datetime="{{.UTC.Format "2006-01-02T15:04:05Z"}}">{{.UTC.Format "2 January 2006, 15:04:05 UTC"}}</time>{{end}}`

var auditPage = template.Must(template.Must(template.New("audit").Funcs(pageFuncs).Parse(pageStyle)).Parse(`{{define "begin"}}<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{{.Program}}">
<title>{{.Title}}: {{word .Status}}</title>
{{template "style"}}
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p class="status">{{word .Status}}</p>
<dl>
<dt>Date</dt><dd>{{template "time" .Date}} to {{template "time" .Ended}}</dd>
<dt>Source</dt><dd>{{.Source}}</dd>
<dt>Mirror</dt><dd>{{.Dir}}</dd>
{{with .Flags}}<dt>Flags</dt><dd><code>{{shell .}}</code></dd>
{{end}}<dt>Program</dt><dd>{{.Program}}, {{.Go}}, {{.System}}</dd>
</dl>
<table>
<caption>Sets</caption>
<thead><tr><th scope="col">Set</th><th scope="col">Compared with the list of this moment and the changes since</th><th scope="col">Mirror followed it to</th></tr></thead>
<tbody>
{{range .Sets}}<tr><th scope="row">{{.Set}}{{with .Partial}}<br>Documents of the Source could not be used: {{.}}{{end}}{{with .Gap}}<br>{{.}}{{end}}</th><td>{{with .At}}{{template "time" .}}{{else}}unknown{{end}}</td><td>{{with .Followed}}{{template "time" .}}{{else}}never{{end}}</td></tr>
{{end}}</tbody>
</table>
<table>
<caption>Totals</caption>
<thead><tr><th scope="col">What</th><th scope="col" class="n">Number</th></tr></thead>
<tbody>
{{range .Totals}}<tr><th scope="row">{{.Name}}</th><td class="n">{{.N}}</td></tr>
{{end}}</tbody>
</table>
{{if .Rows}}<table>
<caption>Resources that are not the same, or were repaired ({{.Rows}})</caption>
<thead><tr><th scope="col">Verdict</th><th scope="col">Resource</th><th scope="col">Why</th></tr></thead>
<tbody>
{{else}}<p>Every resource compared is the same.</p>
{{end}}{{end}}{{define "row"}}<tr><td><span aria-hidden="true">{{mark .Verdict}} </span>{{.Verdict}}{{if .Again}}, after the repair{{end}}</td><td>{{.URI}}{{with .Path}}<br>{{.}}{{end}}</td><td>{{.Message}}</td></tr>
{{end}}{{define "end"}}{{if .Rows}}</tbody>
</table>
{{end}}<p>{{.Digest}}:</p>
{{end}}{{define "digest"}}<p><code>{{.}}</code></p></main></body></html>
{{end}}`))
