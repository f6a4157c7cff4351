// Package patch makes and applies descriptions of the change between two versions of a
// resource (1.1 §14.4).
//
// Three kinds are known. JSON Patch (RFC 6902) describes changes of a JSON document; it says
// nothing of white space and the spelling of numbers, so Make returns one only if applying
// it gives the bytes of the new version. Zstandard with the old version as dictionary works for all bytes:
// the patch is the new version, compressed, in the framing of RFC 9842 (dcz), which begins
// with the SHA-256 of the old version. VCDIFF (RFC 3284) works for all bytes too, and needs only a window
// of them in memory: MakeVCDIFF and ApplyVCDIFF take readers.
//
// A patch is a claim of its Source: Apply bounds what it costs, and its result counts only
// if it has the digest that the Source gives for the new version.
package patch
