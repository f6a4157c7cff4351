// Package bench measures the library beside what else there is for the same work,
// in one run, since a figure of one machine says little on another but a ratio
// does. `make bench-documents` prints the table of reading and writing documents.
//
// There is no production code in it: everything is in its tests. Those of
// `make full` use small sets, to see that each row still works.
package bench
