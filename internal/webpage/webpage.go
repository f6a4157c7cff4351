// Package webpage has the common parts of all HTML pages: a small stylesheet, and templates for
// times, links and commands. A page needs no script and no other file. It is readable without its
// style, in dark mode, on a phone and on paper.
//
// [New] parses a page. Its templates may use:
//
//	{{template "style"}}        the stylesheet, inlined
//	{{template "day" T}}        the day of a time
//	{{template "time" T}}       a time to the minute
//	{{template "moment" T}}     a time to the second
//	{{template "linked" TEXT}}  a link if TEXT is a web or e-mail address, else TEXT
//	{{shell WORDS}}             a command line to paste into a shell
//	{{size N}}, {{number N}}    a number of bytes, and a count, formatted for people
package webpage

import (
	_ "embed" // the stylesheet
	"html/template"
	"net/mail"
	"net/url"
	"strings"

	"github.com/dustin/go-humanize"
)

//go:embed style.css
var style string

const shared = `{{define "style"}}<style>
{{css}}</style>{{end}}{{define "time"}}<time datetime="{{.UTC.Format "2006-01-02T15:04:05Z"}}">{{.UTC.Format "2 January 2006, 15:04 UTC"}}</time>{{end -}}
{{define "day"}}<time datetime="{{.UTC.Format "2006-01-02T15:04:05Z"}}">{{.UTC.Format "2 January 2006"}}</time>{{end -}}
{{define "moment"}}<time datetime="{{.UTC.Format "2006-01-02T15:04:05Z"}}">{{.UTC.Format "2 January 2006, 15:04:05 UTC"}}</time>{{end -}}
{{define "linked"}}{{with href .}}<a href="{{.}}">{{label $}}</a>{{else}}{{.}}{{end}}{{end}}`

// New parses the templates of a page. The page can use the templates and functions of
// this package and the given functions.
func New(name, text string, more template.FuncMap) *template.Template {
	t := template.New(name).Funcs(template.FuncMap{
		"css":    func() template.CSS { return template.CSS(style) }, //nolint:gosec // G203: the stylesheet is our own
		"href":   Href,
		"label":  Label,
		"shell":  func(words ...string) string { return Shell(words...) },
		"size":   Size,
		"number": humanize.Comma,
	}).Funcs(more)
	return template.Must(template.Must(t.Parse(shared)).Parse(text))
}

// Size formats a number of bytes for people, such as 31 GB, and a negative number as 0 B.
func Size(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

// Href returns the URL of a link if a text is a web address or an e-mail address, and
// "" for any other text.
func Href(text string) string {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, " \t\r\n<>\"") {
		return ""
	}
	if u, err := url.Parse(text); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return text
	}
	address, _ := strings.CutPrefix(text, "mailto:")
	if parsed, err := mail.ParseAddress(address); err == nil && parsed.Address == address {
		return "mailto:" + address
	}
	return ""
}

// licences lists the beginning of each licence's address, without the scheme, and the licence's
// name.
var licences = []struct{ prefix, name string }{
	{"creativecommons.org/licenses/", "CC "},
	{"creativecommons.org/publicdomain/zero/", "CC0 "},
	{"creativecommons.org/publicdomain/mark/", "Public Domain Mark "},
}

// Label returns the text to show for a linked address: an e-mail address without its
// scheme, the name of a licence of Creative Commons instead of its address, and any
// other text unchanged.
func Label(text string) string {
	text = strings.TrimSpace(text)
	if address, ok := strings.CutPrefix(text, "mailto:"); ok {
		return address
	}
	_, address, _ := strings.Cut(text, "://")
	address = strings.TrimPrefix(address, "www.")
	for _, l := range licences {
		rest, ok := strings.CutPrefix(address, l.prefix)
		if !ok {
			continue
		}
		for _, page := range []string{"deed.en", "legalcode", "deed"} {
			rest = strings.TrimSuffix(rest, page)
		}
		if words := strings.Split(strings.Trim(rest, "/"), "/"); words[0] != "" && len(words) <= 3 {
			words[0] = strings.ToUpper(words[0])
			return l.name + strings.Join(words, " ")
		}
	}
	return text
}

// Shell returns the command line that a shell would split into exactly the given words.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}

func shellWord(w string) string {
	plain := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r))
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !plain(r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
