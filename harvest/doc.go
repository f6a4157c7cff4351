// Package harvest reads the documents of a set: its state at one moment, and its
// changes after a moment (1.1 §5.2).
//
// An [Offer] is one set during reading. Offer.Present and Offer.Snapshot return all
// resources of the Resource Lists (1.1 §10) or of the manifests of Resource Dumps (1.1
// §11), with the changes after them. Offer.Follow returns the changes after a
// [Position], from Change Lists (1.1 §12), from the manifests of Change Dumps (1.1 §13)
// or from archives. The package also handles indexes, pages, nested lists and their
// times.
//
// A [Document] is used completely or not at all: it is fetched, stored in a temporary
// file and read to its end tag before its entries take effect. An unusable document is
// reported as a [DocumentError] or a [SourceError]; other errors come from the reader's
// own side, such as a full disk.
//
// The package knows nothing about mirrors, and it only names packages: the Manifests of
// a [Reader] open them.
package harvest
