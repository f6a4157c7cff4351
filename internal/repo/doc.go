// Package repo holds tests about the repository itself: the arrows between
// packages, the tables in docs that name code and tests, the JSON Schema of the
// command line's records, and what must never be in the tree.
//
// Some of what it checks is generated. To write it anew:
//
//	go test ./internal/repo -update
package repo
