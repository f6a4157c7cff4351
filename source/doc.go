// Package source is the Source role of ResourceSync (1.1 §5.1). It writes the documents of
// a set of resources in such an order that a reader finds no dangling link and misses no
// change, even while it reads old and new documents together.
//
// The caller passes data as iterators ([Snapshot], [Window]), a [blob.Bucket] to publish
// into, and a [Journal] that records publications. [NewJournal] returns a Journal in a
// directory or in memory. A [Publisher] turns an [Update] into documents: it stages all
// documents, commits the publication as one record of the Journal, writes the documents,
// each after those to which it links, and removes documents that no reader can need any
// more. [Publisher.Recover] completes a publication that was interrupted after its
// commit, with the same code, and removes one that was not committed.
//
// [NewHandler] serves a publication and its resources.
//
// Each Change List begins where the one before ends, and so do Change Dumps. Superseded and
// closed documents stay as long as a reader may need them, and in the archives as long as
// [Policy] says: a reader of a Resource List or Resource Dump that is offered now, or was
// offered a day ago, finds every change since then (1.1 §12, Archives §2 to §6).
//
// These documents are below the base URL. Those of a set with a name are in
// resourcesync/sets/NAME/.
//
//	.well-known/resourcesync                         copy of the Source Description
//	resourcesync/publication.json                    UUID of the state directory of this publication
//	resourcesync/about.html, set.html                pages about the Source and about a set
//	resourcesync/description.xml                     Source Description (1.1 §8); parts beside it
//	resourcesync/capabilitylist.xml                  Capability List (1.1 §9)
//	resourcesync/lists/ID/resourcelist.xml           Resource List (1.1 §10) or its index; parts beside it
//	resourcesync/resourcelist.xml                    copy of the current Resource List
//	resourcesync/changes/NUMBER.xml                  Change List (1.1 §12.1), named by the number of its first change
//	resourcesync/changelist.xml                      optional: the changes of the newest Change Lists, at a fixed name
//	resourcesync/changelist-index.xml                index of the current Change Lists (1.1 §12.2)
//	resourcesync/dumps/ID/resourcedump.xml           Resource Dump (1.1 §11) or its index; parts, packages 00001.zip and
//	                                                 copies of their manifests 00001-manifest.xml beside it
//	resourcesync/changedumps/NUMBER.xml              Change Dump beside a Change List (1.1 §13)
//	resourcesync/changedumps/ID/00001.zip            packages of Change Dumps that a publication added, with 00001-manifest.xml
//	resourcesync/changedump-index.xml                index of the current Change Dumps
//	resourcesync/archives/KIND-archive.xml           archive of a kind (Archives §3 to §6) or its index; parts beside it
//	resourcesync/archives/changelists/NUMBER.xml     copy of a closed Change List without a link to the index that it
//	                                                 leaves; in changedumps/ those of Change Dumps
//	resourcesync/maps/sitemap.xml                    Resource Maps (OAI-ORE) and the documents that list them
//	sitemap.xml                                      plain sitemap of the default set; parts beside it
package source
