// Package harvest reads the documents of a set: its state at one moment, and the changes
// since another (1.1 §5.2).
//
// An [Offer] is one set as it is read. Offer.Present and Offer.Snapshot give all resources as
// Resource Lists (1.1 §10) or the manifests of Resource Dumps (1.1 §11) name them, with the changes
// after them; Offer.Follow gives the changes after a [Position], by Change Lists (1.1 §12), the
// manifests of Change Dumps (1.1 §13) or archives. Indexes, pages, lists in lists and their
// moments are dealt with here.
//
// A [Document] counts completely or not at all: it is fetched, stored in a temporary file
// and read to its end tag before anything acts on its entries. An unusable document is a
// [DocumentError] or a [SourceError]; errors of the reader's own side, such as a full disk,
// are neither.
//
// The package knows nothing about mirrors, and only the names of packages: the Manifests of
// a [Reader] open them.
package harvest
