package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
)

// SARIF writes findings as a log of SARIF 2.1.0 (OASIS), for code review services and
// editors. It writes each finding immediately, one per line. At the end it writes the rules
// that occurred, so it holds only their ids in memory. It is not safe for concurrent use.
type SARIF struct {
	w       io.Writer
	version string
	err     error // the first error in writing the log
	results int64
	index   map[string]int // index in met of each rule, by the id of the rule
	met     []string       // the ids of the rules of all findings so far
	trouble []sarifNotification
	more    int // number of failures that the log omits, because it has maxTroubles already
}

// NewSARIF returns a writer for one log. version is the version of the program.
func NewSARIF(w io.Writer, version string) *SARIF {
	return &SARIF{w: w, version: version, index: map[string]int{}}
}

const (
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	maxTroubles  = 1000
	sarifOpening = `{"$schema":"` + sarifSchema + `","version":"2.1.0","runs":[{"columnKind":"unicodeCodePoints","results":[` + "\n"
)

type sarifText struct {
	Text string `json:"text"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

type sarifPhysical struct {
	ArtifactLocation sarifArtifact `json:"artifactLocation"`
	Region           *sarifRegion  `json:"region,omitempty"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
	Kind               string `json:"kind"`
}

type sarifLocation struct {
	PhysicalLocation sarifPhysical  `json:"physicalLocation"`
	LogicalLocations []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifConfiguration struct {
	Level string `json:"level"`
}

type sarifProperties struct {
	Section string   `json:"section"`
	Version string   `json:"version"`
	Kinds   []string `json:"kinds"`
}

type sarifRule struct {
	ID                   string             `json:"id"`
	ShortDescription     sarifText          `json:"shortDescription"`
	Help                 sarifText          `json:"help"`
	DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
	Properties           sarifProperties    `json:"properties"`
}

type sarifNotification struct {
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifInvocation struct {
	ExecutionSuccessful bool                `json:"executionSuccessful"`
	ExitCode            int                 `json:"exitCode"`
	Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

// Finding writes one finding.
func (s *SARIF) Finding(f Finding) {
	n, ok := s.index[f.Rule]
	if !ok {
		n = len(s.met)
		s.index[f.Rule] = n
		s.met = append(s.met, f.Rule)
	}
	location := sarifLocation{PhysicalLocation: sarifPhysical{ArtifactLocation: sarifArtifact{uriReference(f.URI)}}}
	if f.Line > 0 {
		location.PhysicalLocation.Region = &sarifRegion{f.Line, f.Column}
	}
	if f.Entry != "" {
		location.LogicalLocations = []sarifLogical{{f.Entry, "resource"}}
	}
	s.begin()
	s.value(sarifResult{
		RuleID: f.Rule, RuleIndex: n, Level: sarifLevel(f.Level),
		Message: sarifText{f.Message}, Locations: []sarifLocation{location},
	})
	s.results++
}

// begin writes the start of the log before the first result, and a comma before each other
// result. A log without results needs the start, too.
func (s *SARIF) begin() {
	if s.results == 0 {
		s.write(sarifOpening)
		return
	}
	s.write(",\n")
}

// Failed adds a document that could not be checked to the log. The URI may be empty.
func (s *SARIF) Failed(uri, message string) {
	if len(s.trouble) == maxTroubles {
		s.more++
		return
	}
	n := sarifNotification{Level: "error", Message: sarifText{message}}
	if uri != "" {
		n.Locations = []sarifLocation{{PhysicalLocation: sarifPhysical{ArtifactLocation: sarifArtifact{uriReference(uri)}}}}
	}
	s.trouble = append(s.trouble, n)
}

// Close writes the rest of the log, and returns the first error that occurred in writing
// the log. checked states whether any document was checked, and exitCode is the exit code
// of the program.
func (s *SARIF) Close(checked bool, exitCode int) error {
	if s.results == 0 {
		s.begin()
	}
	s.write("\n],\n" + `"tool":{"driver":{"name":"instep","semanticVersion":`)
	s.value(s.version)
	s.write(`,"rules":[` + "\n")
	for i, id := range s.met {
		if i > 0 {
			s.write(",\n")
		}
		s.value(ruleOf(id))
	}
	if s.more > 0 {
		s.trouble = append(s.trouble, sarifNotification{Level: "error", Message: sarifText{fmt.Sprintf("%d more", s.more)}})
	}
	s.write("\n]}},\n" + `"invocations":[`)
	s.value(sarifInvocation{ExecutionSuccessful: checked, ExitCode: exitCode, Notifications: s.trouble})
	s.write("]}]}\n")
	return s.err
}

func ruleOf(id string) sarifRule {
	r, _ := Lookup(id) // always found, since a Checker has only rules of the catalogue
	return sarifRule{
		ID: id, ShortDescription: sarifText{r.Text}, Help: sarifText{r.Fix},
		DefaultConfiguration: sarifConfiguration{sarifLevel(r.Level)},
		Properties:           sarifProperties{r.Section, r.Version, r.Kinds},
	}
}

func sarifLevel(l Level) string {
	if l == Info {
		return "note"
	}
	return l.String()
}

// uriReference escapes a URI or path as RFC 3986 requires.
func uriReference(given string) string {
	if scheme, _, ok := strings.Cut(given, "://"); ok && (scheme == "http" || scheme == "https") {
		if u, err := url.Parse(given); err == nil {
			return u.String()
		}
	}
	return (&url.URL{Path: filepath.ToSlash(given)}).String()
}

func (s *SARIF) value(v any) {
	b, err := json.Marshal(v)
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("write SARIF: %w", err)
	}
	s.write(string(b))
}

func (s *SARIF) write(text string) {
	if s.err != nil {
		return
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		s.err = fmt.Errorf("write SARIF: %w", err)
	}
}
