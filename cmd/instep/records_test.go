package main

import "instep/resourcesync"

// record is a JSON record of any type, but for the summary, as the tests read it.
type record struct {
	SchemaVersion int    `json:"schema_version,omitempty"`
	Type          string `json:"type"`

	Action  string `json:"action,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	URI     string `json:"uri,omitempty"`
	Path    string `json:"path,omitempty"`
	Trash   string `json:"trash,omitempty"`
	Bytes   *int64 `json:"bytes,omitempty"`
	Via     string `json:"via,omitempty"`

	Message string `json:"message,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Hint    string `json:"hint,omitempty"`
	Quirk   int    `json:"quirk,omitempty"`
	Key     string `json:"key,omitempty"`
	Value   string `json:"value,omitempty"`
	Origin  string `json:"origin,omitempty"`
	Set     string `json:"set,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Cause   string `json:"cause,omitempty"`
	RunID   string `json:"run_id,omitempty"`
	Again   bool   `json:"again,omitempty"`
	Addr    string `json:"addr,omitempty"`
	Version string `json:"version,omitempty"`
	Go      string `json:"go,omitempty"`

	Published *int64 `json:"published,omitempty"`
	Same      *int64 `json:"same,omitempty"`
	Created   *int64 `json:"created,omitempty"`
	Updated   *int64 `json:"updated,omitempty"`
	Deleted   *int64 `json:"deleted,omitempty"`
	Failed    *int64 `json:"failed,omitempty"`
	Resources *int64 `json:"resources,omitempty"`

	Rule   string `json:"rule,omitempty"`
	Level  string `json:"level,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Entry  string `json:"entry,omitempty"`

	Withheld *int64 `json:"withheld,omitempty"`
	Before   *int64 `json:"deleted_before,omitempty"`
	Allowed  *int64 `json:"allowed,omitempty"`
	Doubted  *int64 `json:"doubted,omitempty"`
	Plan     string `json:"plan,omitempty"`
	Gap      string `json:"gap,omitempty"`

	Kind       string `json:"kind,omitempty"`
	Root       string `json:"root,omitempty"`
	Capability string `json:"capability,omitempty"`
	Dialect    string `json:"dialect,omitempty"`
	Entries    *int64 `json:"entries,omitempty"`
	At         string `json:"at,omitempty"`
	Completed  string `json:"completed,omitempty"`
	From       string `json:"from,omitempty"`
	Until      string `json:"until,omitempty"`
	Up         string `json:"up,omitempty"`
	Index      string `json:"index,omitempty"`
	Profile    string `json:"profile,omitempty"`

	Hash      string `json:"hash,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	LastMod   string `json:"lastmod,omitempty"`
	Changed   string `json:"changed,omitempty"`
	Verified  *bool  `json:"verified,omitempty"`
	Run       int64  `json:"run,omitempty"`
	Command   string `json:"command,omitempty"`

	*resourcesync.Remainder // of resource and version: its fields stand beside the others; nil: none
}
