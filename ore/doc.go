// Package ore finds and reads Resource Maps of OAI-ORE: documents that name what
// belongs together, an Aggregation and the resources that it aggregates.
//
// [Finder] finds them from any URI, by every way of "ORE User Guide - Resource Map
// Discovery" (the alpha of 2007, whose sections are cited as ORE alpha §2.2, and the
// relations of version 1.0), and says of each by which way it was found. [Reader] reads
// one, in Atom, RDF/XML or JSON-LD. What a way says of a map that the map itself
// contradicts is a [Problem], named by the rule of package lint that it breaks.
package ore
