package lint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"instep/lint"
)

// sarifSchema describes the parts of SARIF 2.1.0 that are written, after the text of
// the standard: everything it requires there, and no property that it does not have.
func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile("testdata/sarif.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSARIFIsValid(t *testing.T) {
	schema := sarifSchema(t)
	for name, findings := range map[string][]lint.Finding{
		"none": nil,
		"several": {
			{Rule: "xml-well-formed", Level: lint.Error, URI: "museum/a b%.xml", Line: 3, Column: 7, Message: "not \x00 \xff text"},
			{Rule: "pri-range", Level: lint.Warning, URI: "https://example.org/ä?x=[1]", Line: 2, Entry: "https://example.org/1", Message: "m"},
			{Rule: "xml-well-formed", Level: lint.Info, URI: "c:d.zip!manifest.xml", Message: "m"},
			{Rule: "no-such-rule", Level: lint.Error, URI: "https://%zz/", Message: "m"},
		},
	} {
		var b bytes.Buffer
		s := lint.NewSARIF(&b, "1.2.3")
		for _, f := range findings {
			s.Finding(f)
		}
		s.Failed("https://example.org/gone", "404")
		s.Failed("", "nothing was given")
		if err := s.Close(true, 3); err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(&b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSARIFByTheOfficialSchema holds the log in the docs against the schema of OASIS.
// It is not in this tree; the linter of `make lint` has a module with a copy.
func TestSARIFByTheOfficialSchema(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/securego/gosec/v2")
	list.Dir = "../tools"
	dir, err := list.Output()
	if err != nil || len(bytes.TrimSpace(dir)) == 0 {
		t.Skipf("SKIPPED: the module with the SARIF schema is not here (%v); make lint fetches it", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(filepath.Join(string(bytes.TrimSpace(dir)), "report/sarif/testdata/sarif-schema-2.1.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Open("../docs/lint/museum.sarif")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	v, err := jsonschema.UnmarshalJSON(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Error(err)
	}
	v.(map[string]any)["version"] = "2.2.0"
	if schema.Validate(v) == nil {
		t.Error("a log of another version is valid by this schema")
	}
}

func TestSARIFNamesEachRuleOnce(t *testing.T) {
	var b bytes.Buffer
	s := lint.NewSARIF(&b, "1.2.3")
	for _, id := range []string{"pri-range", "loc-absolute-uri", "pri-range"} {
		s.Finding(lint.Finding{Rule: id, URI: "a.xml", Message: "m"})
	}
	if err := s.Close(true, 0); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Runs []struct {
			Results []struct {
				RuleID    string
				RuleIndex int
			}
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range log.Runs[0].Results {
		got = append(got, fmt.Sprintf("%s %d %s", r.RuleID, r.RuleIndex, log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID))
	}
	want := []string{"pri-range 0 pri-range", "loc-absolute-uri 1 loc-absolute-uri", "pri-range 0 pri-range"}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("results and their rules (-got +want):\n%s", d)
	}
}

func TestSARIFKeepsABoundedNumberOfFailures(t *testing.T) {
	var b bytes.Buffer
	s := lint.NewSARIF(&b, "1.2.3")
	for range 5000 {
		s.Failed("a.xml", "cannot be read")
	}
	if err := s.Close(false, 1); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "cannot be read"); n != 1000 || !strings.Contains(b.String(), "4000 more") {
		t.Errorf("got %d failures, want 1000 and the number of the others", n)
	}
}

func TestSARIFTellsThatItCannotBeWritten(t *testing.T) {
	full := errors.New("the disk is full")
	s := lint.NewSARIF(failingWriter{full}, "1.2.3")
	s.Finding(lint.Finding{Rule: "pri-range", URI: "a.xml", Message: "m"})
	if err := s.Close(true, 0); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
