package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"
)

// csvForm writes a CSV table; the first column of each line is the kind of the line.
type csvForm struct{}

func (csvForm) begin(w io.Writer, h reportHead) error {
	return writeCSV(w,
		[]string{"record", "set", "verdict", "again", "uri", "path", "message"},
		fact("title", h.Title), fact("date", h.Date.Format(time.RFC3339)), fact("source", h.Source), fact("dir", h.Dir),
		fact("flags", shellLine(h.Flags...)), fact("program", h.Program), fact("go", h.Go), fact("system", h.System), fact("digest", h.Digest))
}

func fact(name, text string) []string { return []string{name, "", "", "", "", "", harmless(text)} }

func (csvForm) row(w io.Writer, r reportRow) error {
	again := ""
	if r.Again {
		again = "true"
	}
	return writeCSV(w, []string{"resource", harmless(r.Set), string(r.Verdict), again, harmless(r.URI), harmless(r.Path), harmless(r.Message)})
}

func (csvForm) end(w io.Writer, t reportTail) error {
	var lines [][]string
	for _, s := range t.Sets {
		for _, f := range []struct {
			name string
			at   *time.Time
		}{{"set at", s.At}, {"set followed", s.Followed}} {
			if f.at != nil {
				lines = append(lines, []string{f.name, harmless(s.Set), "", "", "", "", f.at.Format(time.RFC3339Nano)})
			}
		}
		if s.Partial != "" {
			lines = append(lines, []string{"set incomplete", harmless(s.Set), "", "", "", "", harmless(s.Partial)})
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

// harmless changes a text so that a spreadsheet does not read it as a formula, and
// escapes control characters. It adds the prefix "./", which does not change the
// meaning of a path.
func harmless(s string) string {
	s = printable(s)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "./" + s
	}
	return s
}

// jsonForm writes one JSON object, with each resource on its own line.
type jsonForm struct{ rows int64 }

func (f *jsonForm) begin(w io.Writer, h reportHead) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = io.WriteString(w, `{"report":`+string(escapeSteering(text))+",\n\"resources\":[")
	}
	return err
}

func (f *jsonForm) row(w io.Writer, r reportRow) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	before := ",\n"
	if f.rows == 0 {
		before = "\n"
	}
	f.rows++
	_, err = io.WriteString(w, before+string(escapeSteering(text)))
	return err
}

func (f *jsonForm) end(w io.Writer, t reportTail) error {
	text, err := json.Marshal(t)
	if err == nil {
		_, err = io.WriteString(w, "\n],\n\"outcome\":"+string(escapeSteering(text))+",\n")
	}
	return err
}

func (f *jsonForm) digest(w io.Writer, sum string) error {
	_, err := io.WriteString(w, `"sha-256":"`+sum+"\"}\n")
	return err
}

func (f *jsonForm) close() error { return nil }
