// Package resourcesync is the wire format of the ResourceSync Framework (ANSI/NISO Z39.99):
// the vocabulary of its documents and streaming readers and writers. It imports only the
// standard library.
//
// # Documents
//
// Every ResourceSync document has one shape: a [Header] and a sequence of [Entry] values in
// a urlset or a sitemapindex (1.1 §7). Resource List, Change List, Capability List, Source
// Description, the dumps and their manifests, the indexes and the Archives differ in rules,
// not in shape, so one set of types serves them all. [Header.Root] and the capability
// together give the kind of a document, [Header.Kind]. A document without capability is a
// plain sitemap.
//
// # Reading
//
// [NewDecoder] reads a document, compressed or not, from any reader. Begin with
// [Decoder.Header], which stops at the first entry; then loop over [Decoder.Entries]; then
// call Header again before you decide anything by it, since rs:md may come after the
// entries. A document counts as read only if that loop ended without an error: one that was
// cut, or has data after its end, always yields one.
//
// DTDs are refused and nothing outside of the document is ever opened. Memory
// does not grow with the document.
//
// # Tolerance
//
// There are two kinds of errors. Malformed XML, a document that is not ResourceSync, or one
// beyond [Limits] ends with a [*DecodeError]. A value that cannot be read counts as absent,
// a known habit of Sources is understood, and the document continues. An unreadable digest
// never counts as matched.
//
// [WithNotes] reports each such case as a [Note]: the text found, how it was read, the
// rule, and the number of the habit, a [Quirk]. [NoteTally] collects them by kind. A note
// that is Legal is about something unusual that the standard allows. [WithTolerance]
// decides which are errors: none with [Lenient], all that are not legal with [Strict], and
// anything between with [Tolerance.Except] and [Tolerance.And].
//
// URIs and paths are returned as written, also relative ones and those with odd characters,
// and noted: the caller decides whether to follow them.
//
// # Dialects
//
// Documents from before 1.1 are converted to the terms of 1.1, and [Header.Dialect] has
// their dialect: 1.0 (only with [AsDialect], as it cannot be recognised), the drafts of the
// middle of 2013, and the proposal of D-Lib Magazine of January 2013, with its Atom feeds
// and its own XML.
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
// [NewEncoder] writes a document. The same values give the same bytes; values that the
// standard forbids are errors, and [ErrFull] means that an entry belongs into the next
// document. [Series] writes as many documents as a list needs, and the index over them.
//
// # Values
//
// [Datetime], [Digest], [Digests], [Length] and [Priority] parse and print themselves and
// are absent when zero. Datetime, Digest and Length can be compared with ==.
//
// # Verifying
//
// [NewVerifyReader] delivers bytes and fails before io.EOF if they differ from the
// description. [Hasher] computes the digests for a description.
package resourcesync
