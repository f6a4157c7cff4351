package main

import "instep/resourcesync"

// jsonRecord is a JSON record. docs/schema.json defines the fields of each type.
type jsonRecord interface {
	kind() string // type of the record in docs/schema.json
	begin(schemaVersion int, kind string)
}

type recordHead struct {
	SchemaVersion int    `json:"schema_version,omitempty"` // the version of docs/schema.json; only in the first record of a command
	Type          string `json:"type"`
}

func (h *recordHead) begin(schemaVersion int, kind string) {
	h.SchemaVersion, h.Type = schemaVersion, kind
}

type changeRecord struct {
	recordHead

	Action string `json:"action,omitempty"`
	URI    string `json:"uri,omitempty"`
	Path   string `json:"path,omitempty"`
	Bytes  *int64 `json:"bytes,omitempty"`
	Via    string `json:"via,omitempty"`
	Set    string `json:"set,omitempty"`
	Line   int    `json:"line,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Was    string `json:"hash_before,omitempty"`

	Unapproved bool `json:"unapproved,omitempty"`
}

type statusRecord struct {
	recordHead

	URI       string `json:"uri,omitempty"`
	Path      string `json:"path,omitempty"`
	Bytes     *int64 `json:"bytes,omitempty"`
	Message   string `json:"message,omitempty"`
	Key       string `json:"key,omitempty"`
	Value     string `json:"value,omitempty"`
	Origin    string `json:"origin,omitempty"`
	Set       string `json:"set,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Addr      string `json:"addr,omitempty"`
	Version   string `json:"version,omitempty"`
	Go        string `json:"go,omitempty"`
	Published *int64 `json:"published,omitempty"`
	Same      *int64 `json:"same,omitempty"`
	Created   *int64 `json:"created,omitempty"`
	Updated   *int64 `json:"updated,omitempty"`
	Deleted   *int64 `json:"deleted,omitempty"`
	Failed    *int64 `json:"failed,omitempty"`
	Resources *int64 `json:"resources,omitempty"`
}

type warningRecord struct {
	recordHead

	URI      string `json:"uri,omitempty"`
	Path     string `json:"path,omitempty"`
	Trash    string `json:"trash,omitempty"`
	Message  string `json:"message,omitempty"`
	Hint     string `json:"hint,omitempty"`
	Quirk    int    `json:"quirk,omitempty"`
	Set      string `json:"set,omitempty"`
	RunID    string `json:"run_id,omitempty"`
	Line     int    `json:"line,omitempty"`
	Withheld *int64 `json:"withheld,omitempty"`
	Before   *int64 `json:"deleted_before,omitempty"`
	Allowed  *int64 `json:"allowed,omitempty"`
	Doubted  *int64 `json:"doubted,omitempty"`
	Plan     string `json:"plan,omitempty"`
	Gap      string `json:"gap,omitempty"`
}

type errorRecord struct {
	recordHead

	URI     string `json:"uri,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Set     string `json:"set,omitempty"`
	Cause   string `json:"cause,omitempty"`
	RunID   string `json:"run_id,omitempty"`
}

type verdictRecord struct {
	recordHead

	Verdict string `json:"verdict,omitempty"`
	URI     string `json:"uri,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message,omitempty"`
	Again   bool   `json:"again,omitempty"`
}

type documentRecord struct {
	recordHead

	URI        string `json:"uri,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Root       string `json:"root,omitempty"`
	Capability string `json:"capability,omitempty"`
	Dialect    string `json:"dialect,omitempty"`
	Entries    *int64 `json:"entries,omitempty"`
	Requested  *int64 `json:"requested,omitempty"`
	At         string `json:"at,omitempty"`
	Completed  string `json:"completed,omitempty"`
	From       string `json:"from,omitempty"`
	Until      string `json:"until,omitempty"`
	Up         string `json:"up,omitempty"`
	Index      string `json:"index,omitempty"`
	Profile    string `json:"profile,omitempty"`
}

type findingRecord struct {
	recordHead

	URI     string `json:"uri,omitempty"`
	Message string `json:"message,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Level   string `json:"level,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Entry   string `json:"entry,omitempty"`
}

type resourceRecord struct {
	recordHead

	URI       string `json:"uri,omitempty"`
	Path      string `json:"path,omitempty"`
	Bytes     *int64 `json:"bytes,omitempty"`
	Set       string `json:"set,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Hash      string `json:"hash,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	LastMod   string `json:"lastmod,omitempty"`
	Changed   string `json:"changed,omitempty"`
	Verified  *bool  `json:"verified,omitempty"`

	*resourcesync.Remainder // further parts of the Source's entry, as fields of the record; nil if there are none
}

type versionRecord struct {
	recordHead

	Action    string `json:"action,omitempty"`
	URI       string `json:"uri,omitempty"`
	Path      string `json:"path,omitempty"`
	Trash     string `json:"trash,omitempty"`
	Memento   bool   `json:"memento,omitempty"` // whether the state is a version that was fetched from the Source
	Bytes     *int64 `json:"bytes,omitempty"`
	Set       string `json:"set,omitempty"`
	From      string `json:"from,omitempty"`
	Until     string `json:"until,omitempty"`
	Hash      string `json:"hash,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	LastMod   string `json:"lastmod,omitempty"`
	Changed   string `json:"changed,omitempty"`
	Verified  *bool  `json:"verified,omitempty"`
	Run       int64  `json:"run,omitempty"`

	*resourcesync.Remainder // further parts of the Source's entry, as fields of the record; nil if there are none
}

type runRecord struct {
	recordHead

	RunID   string `json:"run_id,omitempty"`
	Created *int64 `json:"created,omitempty"`
	Updated *int64 `json:"updated,omitempty"`
	Deleted *int64 `json:"deleted,omitempty"`
	At      string `json:"at,omitempty"`
	Run     int64  `json:"run,omitempty"`
	Command string `json:"command,omitempty"`

	Repaired *int64 `json:"repaired,omitempty"`
}

func (*changeRecord) kind() string     { return "change" }
func (*statusRecord) kind() string     { return "status" }
func (*warningRecord) kind() string    { return "warning" }
func (*errorRecord) kind() string      { return "error" }
func (*verdictRecord) kind() string    { return "verdict" }
func (*documentRecord) kind() string   { return "document" }
func (*findingRecord) kind() string    { return "finding" }
func (*resourceRecord) kind() string   { return "resource" }
func (*versionRecord) kind() string    { return "version" }
func (*runRecord) kind() string        { return "run" }
func (*aggregatedRecord) kind() string { return "aggregated" }
func (*mapRecord) kind() string        { return "resourcemap" }
func (*reportRecord) kind() string     { return "report" }
func (*ruleRecord) kind() string       { return "rule" }
func (*summary) kind() string          { return "summary" }
