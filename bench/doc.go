// Package bench measures the library beside other programs that do the same work. Both are
// measured in the same run, because times differ between machines while their ratio hardly
// does. `make bench-documents` prints a table of the times in which documents are read and
// written.
//
// The package has only tests. `make full` runs them with small sets, to check that each
// row still works.
package bench
