// Package patch makes and applies patches, which describe the change between two
// versions of a resource (1.1 §14.4).
//
// It knows three kinds. A JSON Patch (RFC 6902) describes changes of a JSON document. It
// cannot describe white space and the spelling of numbers, so Make returns one only if
// applying it gives exactly the bytes of the new version. Zstandard with the old version as
// dictionary works for all bytes: the patch is the compressed new version in the framing of
// RFC 9842 (dcz), which begins with the SHA-256 of the old version. VCDIFF (RFC 3284) also
// works for all bytes, and needs only a part of them in memory: MakeVCDIFF and ApplyVCDIFF
// read and write streams.
//
// A patch comes from a Source that is not trusted: Apply limits its cost, and the
// caller has to compare the digest of the result with the one that the Source gives for
// the new version.
package patch
