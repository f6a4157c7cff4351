// Package harvest reads what a Source says of a set: its state at one moment, and what changed
// since another (1.1 §5.2).
//
// An [Offer] is one set as it is read. Offer.Present and Offer.Snapshot give all resources as
// Resource Lists (1.1 §10) or the manifests of Resource Dumps (1.1 §11) name them, with the changes
// after them; Offer.Follow gives the changes after a [Position], by Change Lists (1.1 §12), the
// manifests of Change Dumps (1.1 §13) or archives. Indexes, pages, lists in lists and their
// moments are dealt with here.
//
// A [Document] counts whole or not at all: it is fetched, kept in a temporary file and read to its
// end tag before anything acts on its entries. What cannot be used is a [DocumentError] or a
// [SourceError]; errors of the reader's own side, such as a full disk, are neither.
//
// The package knows nothing of what is held, and of packages no more than their names: the Manifests
// of a [Reader] open them.
package harvest
