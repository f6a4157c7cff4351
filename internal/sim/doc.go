// Package sim simulates a Source that changes: generated resources, changes at a chosen
// rate and mix, published by package source and served over HTTP, with switches for the
// quirks and faults of existing Sources. "instep simulate" runs it, and tests of a
// Destination can use it.
//
// A [Model] has the resources and their history. It stores no bytes: the content is
// generated from the seed, the resource and its version, so that each resource takes only
// some dozen bytes of memory. A [Truth] is the state of the Model at a moment. A [Source]
// publishes a Model and serves it; [Switch] values select its quirks and faults.
//
// The same seed gives the same resources and changes, and the same calls then give the same
// documents.
package sim
