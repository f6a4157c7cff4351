// Package resourcesync is the ResourceSync Framework (ANSI/NISO Z39.99) on the
// wire: the vocabulary of its documents and streaming readers and writers. It
// imports nothing but the standard library.
//
// # Documents
//
// Every ResourceSync document has one shape: a [Header] and a sequence of
// [Entry] values in a urlset or a sitemapindex (1.1 §7). Resource List, Change
// List, Capability List, Source Description, the dumps and their manifests, the
// indexes and the Archives differ in rules, not in shape, so one set of types
// serves them all. Which kind a document is, [Header.Root] and the capability
// tell. A document without capability is a plain sitemap.
//
// # Reading
//
// [NewDecoder] reads a document, compressed or not, from any reader. Begin with
// [Decoder.Header], which stops at the first entry; then loop over
// [Decoder.Entries]; then ask for the Header again before deciding anything by
// it, since rs:md may stand after the entries. A document counts as read only if
// that loop ended without an error: one that was cut, or that something follows,
// always yields one.
//
// Two kinds of mistake are told apart. What is no well-formed XML, no
// ResourceSync or beyond [Limits] ends the document with a [*DecodeError]. A
// value that can't be read counts as absent, a habit of existing Sources is
// understood, and the document goes on: [WithNotes] tells of each case, and
// [WithTolerance] decides what is refused. A digest that can't be read is never one that matched.
//
// DTDs are refused and nothing outside of the document is ever opened. Memory
// does not grow with the document.
//
// # Writing
//
// [NewEncoder] writes a document. It gives the same bytes for the same values,
// refuses values that the standard does not allow, and says [ErrFull] when an
// entry belongs into the next document.
//
// # Values
//
// [Datetime], [Digest], [Digests] and [Length] parse and print themselves and
// are absent when zero. Datetime, Digest and Length can be compared with ==.
//
// # Verifying
//
// [NewVerifyReader] delivers bytes and fails before io.EOF if they are not those
// that a document describes. [Hasher] computes what to write into one.
package resourcesync
