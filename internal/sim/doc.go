// Package sim simulates a Source that changes: generated resources, changes at a chosen
// rate and mix, published by package source and served over HTTP, with switches for the
// quirks and faults of existing Sources. "instep simulate" runs it, and tests of a
// Destination can use it.
//
// A [Model] has the resources and their history. It stores no bytes: the content is
// generated from the seed, the resource and its version, so that a million resources take
// some dozen bytes each. A [Truth] is the state of the model at a moment. A [Source]
// publishes a Model and serves it; the [Switch] values select its faults.
//
// The same seed gives the same resources, the same changes and, with the same
// calls, the same documents.
package sim
