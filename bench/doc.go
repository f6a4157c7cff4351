// Package bench measures the library beside other programs for the same work, in one run: a
// time on one machine means little on another, a ratio does. `make bench-documents` prints
// the table of reading and writing documents.
//
// There is no production code in it: everything is in its tests. Those of
// `make full` use small sets, to see that each row still works.
package bench
