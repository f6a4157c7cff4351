// Package repo has tests about the repository itself: which packages may import which,
// whether the tables in docs name existing code and tests, the JSON Schema of the records
// that the command line writes, and files and words that must never be in the tree.
//
// Some of the files that it checks are generated. To write them again:
//
//	go test ./internal/repo -update
package repo
