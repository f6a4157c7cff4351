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
// tell, together [Header.Kind]. A document without capability is a plain sitemap.
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
// DTDs are refused and nothing outside of the document is ever opened. Memory
// does not grow with the document.
//
// # Tolerance
//
// Two kinds of mistake are told apart. What is no well-formed XML, no
// ResourceSync or beyond [Limits] ends the document with a [*DecodeError]. A
// value that can't be read counts as absent, a habit of existing Sources is
// understood, and the document continues. A digest that can't be read is never one
// that matched.
//
// [WithNotes] reports each such case as a [Note]: what was there, how it was read,
// the rule it concerns, and the number of the habit, a [Quirk]. [NoteTally] collects
// them by kind. A note that is Legal is of something unusual that the standard
// allows. [WithTolerance] decides what is refused: nothing by [Lenient], all that
// is not legal by [Strict], and anything between by [Tolerance.Except] and
// [Tolerance.And].
//
// URIs and paths are kept as they were written, relative ones and those with odd
// characters too, and noted: what they may lead to is for those to decide who
// follow them.
//
// # Dialects
//
// Documents from before 1.1 are read as what they mean in 1.1, and [Header.Dialect]
// says what they were: 1.0 (only if asked for by [AsDialect], as nothing in it
// tells), the drafts of the middle of 2013, and what D-Lib Magazine proposed in
// January 2013, with its Atom feeds and its XML of its own.
//
//   - lastmod was the time of a change: it is read as datetime too, and not as
//     lastmod of what is deleted.
//   - modified of a snapshot is read as at. Elsewhere it is kept in Attrs, as etag is.
//   - Links top and resourcesync are read as up; up of D-Lib Magazine as index, but
//     for Capability Lists.
//   - A bitstream that is a patch, which nothing but its media type tells, is read as
//     a link of relation [RelPatch]: the entry itself has no path then.
//
// A dialect may show as late as the rs:md does: entries before it are read as those
// of 1.1.
//
// # Writing
//
// [NewEncoder] writes a document. It gives the same bytes for the same values,
// refuses values that the standard does not allow, and says [ErrFull] when an
// entry belongs into the next document. [Series] writes as many documents as a list
// needs, and the index over them.
//
// # Values
//
// [Datetime], [Digest], [Digests], [Length] and [Priority] parse and print themselves and
// are absent when zero. Datetime, Digest and Length can be compared with ==.
//
// # Verifying
//
// [NewVerifyReader] delivers bytes and fails before io.EOF if they are not those
// that a document describes. [Hasher] computes what to write into one.
package resourcesync
