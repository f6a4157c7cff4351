// Package resourcesync is the ResourceSync Framework (ANSI/NISO Z39.99) on the
// wire: the vocabulary of its documents and streaming readers and writers.
//
// Every ResourceSync document has one shape: a [Header] and a sequence of
// [Entry] values in a urlset or a sitemapindex. Resource List, Change List,
// Capability List, Source Description and the others differ in rules, not in
// shape, so one set of types serves them all.
package resourcesync
