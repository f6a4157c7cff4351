// Package ore finds and reads Resource Maps of OAI-ORE: documents that describe an
// Aggregation and the resources that it aggregates.
//
// [Finder] finds them from any URI, by every way of "ORE User Guide - Resource Map
// Discovery" (the alpha of 2007, whose sections are cited as ORE alpha §2.2, and the
// relations of version 1.0), and returns the way for each. [Reader] reads one, in Atom,
// RDF/XML or JSON-LD. A contradiction between a map and a link to it is a [Problem], with
// the id of the rule of package lint that it breaks.
package ore
