// Package destination implements the Destination role of ResourceSync (1.1 §5.2): it
// brings a copy of a Source's resources in step with the Source, keeps it in step, and
// verifies it.
//
// A [Destination] reads the documents of a Source and compares them with a [Mirror].
// Plan decides and changes nothing. Without a cursor it plans a baseline
// synchronisation by Resource List, with a cursor an incremental one by Change List,
// and after a gap in the changes a baseline again. Apply carries out a Plan: it
// verifies bytes while they arrive, commits them in batches, and moves the cursor last.
// Audit compares the held resources, byte by byte, with the Source's documents.
//
//	dest := &destination.Destination{Source: "https://museum.example.org/", Mirror: m, Client: c}
//	plan, err := dest.Plan(ctx)
//	report, err := dest.Apply(ctx, plan)
//
// The Source's documents are never trusted blindly: a document takes effect only after
// it was read to its end tag; bytes that differ from the listed length or digests
// replace nothing; a deletion needs evidence from a complete and newer list or a Change
// List, and many deletions at once need consent (see [Plan.Withheld]).
package destination
