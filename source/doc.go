// Package source is the Source role of ResourceSync (1.1 §5.1): what the
// documents of a set of resources say, and in which order they appear, so that
// whatever mixture of old and new a reader meets has no dangling link and no gap.
//
// Data comes as iterators ([Snapshot], [Window]) and two small contracts: a
// [blob.Bucket] that the documents are published in, and a [Journal] that
// remembers what was published. A [Publisher] turns an [Update] into documents:
// it stages them all, commits the publication as one row of the Journal, writes
// the documents out by rank and removes what no reader can need any more.
// [Publisher.Recover] finishes a publication that was interrupted after its
// commit, with the same code, and undoes one that was not committed.
//
// [NewHandler] serves what was published, and the resources beside it.
//
// Below the base URL lie:
//
//	.well-known/resourcesync                         copy of the description, if the base URL's path is /
//	resourcesync/publication.json                    whose publication this is
//	resourcesync/about.html                          for people
//	resourcesync/description.xml                     Source Description (1.1 §8)
//	resourcesync/[sets/NAME/]capabilitylist.xml      Capability List (1.1 §9)
//	resourcesync/[sets/NAME/]lists/ID/resourcelist.xml   Resource List (1.1 §10) or its index; parts beside it
//	resourcesync/[sets/NAME/]resourcelist.xml        byte copy of the current one
//	resourcesync/[sets/NAME/]changes/NAME.xml        Change List (1.1 §12.1)
//	sitemap.xml                                      plain sitemap of the default set; parts beside it
package source
