// Package sim is a Source that changes: resources made up from a seed, changes at a
// chosen rate and mix, published by package source and served over HTTP, with
// switches for the quirks and the faults that Sources show. It is what "instep
// simulate" runs, and what tests of a Destination can be run against.
//
// A [Model] is the resources and their history. No bytes are kept: content follows
// from the seed, the resource and its version, so that a million resources take some
// dozen bytes each. A [Truth] is what the model was at a moment. A [Source] publishes
// a Model and serves it; the [Switch] values say how it misbehaves.
//
// The same seed gives the same resources, the same changes and, with the same
// calls, the same documents.
package sim
