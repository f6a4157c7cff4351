package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
)

// csvForm writes a report as a CSV table. The first column of each line says what the line
// contains.
type csvForm struct{}

func (csvForm) begin(w io.Writer, h reportHead) error {
	return writeCSV(w,
		[]string{"record", "set", "verdict", "again", "uri", "path", "message"},
		fact("title", h.Title), fact("date", h.Date.Format(time.RFC3339)), fact("source", h.Source), fact("dir", h.Dir), fact("path", h.Path), fact("host", h.Host),
		fact("flags", shellLine(h.Flags...)), fact("program", h.Program), fact("go", h.Go), fact("system", h.System), fact("digest", h.Digest))
}

func fact(name, text string) []string { return []string{name, "", "", "", "", "", reportCell(text)} }

func (csvForm) row(w io.Writer, r reportRow) error {
	again := ""
	if r.Again {
		again = "true"
	}
	return writeCSV(w, []string{"resource", reportCell(r.Set), string(r.Verdict), again, reportCell(r.URI), reportCell(r.Path), reportCell(r.Message)})
}

func (csvForm) end(w io.Writer, t reportTail) error {
	var lines [][]string
	for _, s := range t.Sets {
		for _, f := range []struct{ name, text string }{{"set at", stamp(s.At)}, {"set followed", stamp(s.Followed)}, {"set incomplete", s.Partial}} {
			if f.text != "" {
				lines = append(lines, []string{f.name, reportCell(s.Set), "", "", "", "", reportCell(f.text)})
			}
		}
	}
	for _, total := range t.Totals {
		lines = append(lines, fact("total "+total.Name, strconv.FormatInt(total.N, 10)))
	}
	lines = append(lines, fact("ended", t.Ended.Format(time.RFC3339)), fact("status", t.Status), fact("exit code", strconv.Itoa(t.ExitCode)))
	return writeCSV(w, lines...)
}

func (csvForm) digest(w io.Writer, sum string) error { return writeCSV(w, fact("sha-256", sum)) }

func (csvForm) close() error { return nil }

func writeCSV(w io.Writer, lines ...[]string) error {
	c := csv.NewWriter(w)
	return c.WriteAll(lines) // and flush
}

// reportCell escapes control characters, and puts "./" before a text that a spreadsheet would
// read as a formula. This prefix does not change the meaning of a path.
func reportCell(s string) string {
	s = printable(s)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "./" + s
	}
	return s
}

type jsonForm struct{ rows int64 }

func (f *jsonForm) begin(w io.Writer, h reportHead) error {
	return writeJSON(w, `{"report":`, h, ",\n\"resources\":[")
}

func writeJSON(w io.Writer, prefix string, v any, suffix string) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = io.WriteString(w, prefix+string(escapeSteering(text))+suffix)
	}
	return err
}

func (f *jsonForm) row(w io.Writer, r reportRow) error {
	before := ",\n"
	if f.rows == 0 {
		before = "\n"
	}
	f.rows++
	return writeJSON(w, before, r, "")
}

func (f *jsonForm) end(w io.Writer, t reportTail) error {
	return writeJSON(w, "\n],\n\"outcome\":", t, ",\n")
}

func (f *jsonForm) digest(w io.Writer, sum string) error {
	_, err := io.WriteString(w, `"sha-256":"`+sum+"\"}\n")
	return err
}

func (f *jsonForm) close() error { return nil }
