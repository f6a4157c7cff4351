// Package ore finds and reads Resource Maps of OAI-ORE: documents that describe an
// Aggregation and the resources that it aggregates.
//
// [Finder] starts from any URI, and follows all kinds of links of "ORE User Guide -
// Resource Map Discovery": those of the alpha of 2007, whose sections are cited as ORE
// alpha §2.2, and the link relations of version 1.0. [Reader] reads a map in Atom, RDF/XML
// or JSON-LD. A contradiction between a map and a link to the map is a [Problem], with the
// id of a rule of package lint.
package ore
