// Package destination is the Destination role of ResourceSync (1.1 §5.2): it
// brings a copy of a Source's resources in step with the Source, keeps it there,
// and proves that it is.
//
// A [Destination] reads what a Source offers and compares it with a [Mirror]. Plan
// decides and touches nothing: no cursor means a baseline synchronisation by
// Resource List, a cursor means an incremental one by Change List, and a gap between
// the two means a baseline again. Apply does what a Plan says: bytes are verified
// while they arrive, become durable in batches, and only then is the cursor moved.
// Audit compares what is held, byte by byte, with what the Source says.
//
//	dest := &destination.Destination{Source: "https://museum.example.org/", Mirror: m, Client: c}
//	plan, err := dest.Plan(ctx)
//	report, err := dest.Apply(ctx, plan)
//
// What a Source says is never trusted: a document acts only after it was read to its
// end tag; bytes that differ from the listed length or digests replace nothing; a
// deletion needs evidence from a complete and newer list or a Change List, and many
// deletions at once need consent (see [Plan.Withheld]).
package destination
