// Package repo has tests about the repository itself: the arrows between packages, the
// tables in docs that name code and tests, the JSON Schema of the command line's records,
// and files and words that must never be in the tree.
//
// Some of the files that it checks are generated. To write them again:
//
//	go test ./internal/repo -update
package repo
