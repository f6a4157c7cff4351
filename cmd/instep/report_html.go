package main

import (
	"html/template"
	"io"
	"time"

	"instep/internal/runs"
)

// runView is a run as the page shows it.
type runView struct {
	*runs.Record
	Line   string // its command
	Status string
	Counts string
	Bad    bool
	Groups []causeGroup
	Sets   []runs.Row
	Notes  []runs.Row
}

func viewOf(rec *runs.Record) runView {
	v := runView{Record: rec, Line: shellLine(append(append([]string{"instep", rec.Command}, rec.Options...), rec.Source, rec.Dir)...), Status: "UNFINISHED", Bad: troubled(rec)}
	if rec.End != nil {
		v.Status, v.Counts = words[rec.End.Status], countsLine(rec.End.Counts)
	}
	for _, r := range rec.Rows {
		switch r.Kind {
		case runs.Set:
			v.Sets = append(v.Sets, r)
		case runs.Note:
			v.Notes = append(v.Notes, r)
		}
	}
	v.Groups = groupFailures(rec, "")
	return v
}

// writeRunsPage writes a page about runs: all in a table, and some in detail.
func writeRunsPage(w io.Writer, dir string, kept []record, all []runs.Record, details []*runs.Record, now time.Time) error {
	page := struct {
		Dir, Program  string
		Kept          []record // settings
		Now           time.Time
		Runs, Details []runView
		Full          bool // nothing is left out
	}{Dir: dir, Program: "instep " + version, Kept: kept, Now: now, Full: len(all) == 0}
	for i := range all {
		page.Runs = append(page.Runs, viewOf(&all[i]))
	}
	for _, rec := range details {
		v := viewOf(rec)
		if !page.Full {
			v.shorten()
		}
		page.Details = append(page.Details, v)
	}
	return runsPage.ExecuteTemplate(escaping{w}, "page", page)
}

// maxShown bounds the failures of a cause, and the notes, that a page with several runs
// shows of each.
const maxShown = 20

func (v *runView) shorten() {
	for i := range v.Groups {
		g := &v.Groups[i]
		g.Rows = g.Rows[:min(len(g.Rows), maxShown)]
	}
	v.Notes = v.Notes[:min(len(v.Notes), maxShown)]
}

// More is how many failures of the group are not shown.
func (g causeGroup) More() int64 { return g.N - int64(len(g.Rows)) }

var runsPage = template.Must(template.Must(template.New("runs").Funcs(pageFuncs).Parse(pageStyle)).Parse(`{{define "page"}}<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{{.Program}}">
<title>Runs on the mirror {{.Dir}}</title>
{{template "style"}}
</head>
<body>
<main>
<h1>Runs on the mirror {{.Dir}}</h1>
<p>Written {{template "time" .Now}} by {{.Program}}.</p>
{{if .Kept}}<h2>Settings kept with the mirror</h2>
<dl>
{{range .Kept}}<dt>--{{.Key}}</dt><dd>{{.Value}}</dd>
{{end}}</dl>
{{end}}{{if .Runs}}<table>
<caption>The last runs, the newest first</caption>
<thead><tr><th scope="col">Begun</th><th scope="col">Command</th><th scope="col">Status</th><th scope="col" class="n">Failed</th><th scope="col">Numbers</th></tr></thead>
<tbody>
{{range .Runs}}<tr><th scope="row">{{template "time" .Begun}}<br>{{.ID}}</th><td>{{.Command}}</td><td>{{.Status}}</td><td class="n">{{.Failures}}</td><td>{{.Counts}}</td></tr>
{{end}}</tbody>
</table>
{{end}}{{if not .Details}}<p>No run is recorded.</p>
{{end}}{{range .Details}}{{template "run" .}}{{end}}</main>
</body>
</html>
{{end}}{{define "run"}}<section aria-labelledby="run-{{.ID}}">
<h2 id="run-{{.ID}}">Run {{.ID}}: {{.Status}}</h2>
<dl>
<dt>Command</dt><dd><code>{{.Line}}</code></dd>
<dt>Begun</dt><dd>{{template "time" .Begun}}</dd>
{{with .End}}<dt>Ended</dt><dd>{{template "time" .Ended}}, exit code {{.ExitCode}}</dd>
{{with .Error}}<dt>Ended early</dt><dd>{{.}}</dd>
{{end}}{{with .Hint}}<dt>Hint</dt><dd>{{.}}</dd>
{{end}}{{else}}<dt>Ended</dt><dd>not yet, or it was killed</dd>
{{end}}{{with .Counts}}<dt>Numbers</dt><dd>{{.}}</dd>
{{end}}<dt>Program</dt><dd>instep {{.Version}}, {{.Go}}, {{.System}}</dd>
</dl>
{{if .Sets}}<h3>Sets</h3>
<ul>
{{range .Sets}}<li>{{.Set}}: {{.Mode}}, {{.Message}}</li>
{{end}}</ul>
{{end}}{{if .Groups}}<h3>What failed</h3>
{{range .Groups}}<h4>{{.Cause}}: {{.N}}</h4>
<p>{{.What}}. Next: <code>{{.Next}}</code></p>
<ul>
{{range .Rows}}<li>{{.URI}}{{with .Path}} ({{.}}){{end}}{{if not .URI}}{{.Set}}{{end}}{{with .Message}}<br>{{.}}{{end}}</li>
{{end}}{{with .More}}<li>and {{.}} more</li>
{{end}}</ul>
{{end}}{{end}}{{if .Notes}}<h3>What was tolerated, skipped or held back</h3>
<ul>
{{range .Notes}}<li>{{with .Set}}{{.}}: {{end}}{{.Message}}{{with .Quirk}} (quirk {{.}}){{end}}{{with .Hint}}<br><code>{{.}}</code>{{end}}</li>
{{end}}</ul>
{{end}}</section>
{{end}}`))
