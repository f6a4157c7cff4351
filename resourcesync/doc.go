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
// call Header again before you base decisions on it, since rs:md may come after the
// entries. The document was read completely only if that loop yielded no error. The loop
// yields an error if the document is truncated, or has data after its end.
//
// A document with a DTD is an error, and a Decoder never opens anything outside of the
// document. Memory does not grow with the document.
//
// # Tolerance
//
// A document that is malformed XML, not ResourceSync or beyond [Limits] ends with a
// [*DecodeError]. Other mistakes do not end it: a value that cannot be read counts as
// absent, and known deviations of existing Sources are understood. An unreadable digest
// never counts as matched.
//
// With [WithNotes], a Decoder reports each such mistake as a [Note]: the text found, how it
// was read, the rule, and the number of the known deviation, a [Quirk]. [NoteTally]
// collects notes by kind. A note that is Legal is about something unusual that the standard
// allows. [WithTolerance] decides which notes become errors: none with [Lenient], all that
// are not legal with [Strict], and others with [Tolerance.Except] and [Tolerance.And].
//
// URIs and paths are returned as written. A relative one, or one with odd characters, gets
// a note, and the caller decides whether to follow it.
//
// # Dialects
//
// Documents from before 1.1 are converted to the form of 1.1, and [Header.Dialect] has
// their dialect: 1.0 (only with [AsDialect], since it cannot be recognised), the drafts of
// the middle of 2013, and the proposal in D-Lib Magazine of January 2013, with its Atom
// feeds and its own XML.
//
//   - The lastmod of a change was the time of the change. It is also read as "datetime"; a
//     deletion then has no lastmod.
//   - The attribute "modified" of a snapshot is read as "at". In other documents it is
//     kept in Attrs, and so is "etag".
//   - Links with rel="top" or rel="resourcesync" are read as rel="up". In D-Lib Magazine
//     rel="up" is read as rel="index", except in a Capability List.
//   - If an entry describes a patch, which only its media type shows, the description is
//     read as a link with the relation [RelPatch], and the entry has no path.
//
// Sometimes only the rs:md of the root shows the dialect. Entries before it are read as
// those of 1.1.
//
// # Writing
//
// [NewEncoder] writes a document. The same values give the same bytes; values that the
// standard forbids are errors, and [ErrFull] means that an entry belongs in the next
// document. [Series] writes as many documents as a list needs, and the index over them.
//
// # Values
//
// [Datetime], [Digest], [Digests], [Length] and [Priority] parse and print themselves and
// are absent when zero. Datetime, Digest and Length can be compared with ==.
//
// # Verifying
//
// [NewVerifyReader] returns a reader that ends with an error instead of io.EOF if the bytes
// differ from their description. [Hasher] computes the digests for a description.
package resourcesync
