// Package lint checks ResourceSync documents against the standard: ANSI/NISO Z39.99 in its
// editions 1.1 and 1.0, Archives 0.9.1, and the proposal of 2013 in D-Lib Magazine. It also
// checks sites against the rules for the discovery of OAI-ORE Resource Maps
// ([Checker.ResourceMaps]).
//
// A [Checker] reads a document as a stream and reports a [Finding] for each place
// that does not follow a [Rule]. The catalogue of rules ([Rules], [Lookup]) says
// what each demands, where the standard says so and what the owner of a Source
// should do. What one element, attribute or value shows is decided by the Decoder
// of package resourcesync alone; this package adds what depends on the kind of a
// document, on order, scope and on other entries.
//
// The expectations on a document are a set of rules; the number and places of violations
// are findings. Some rules suppress others:
//
//   - A document that is no well-formed XML, has another root element or another
//     namespace gets that one finding.
//   - Without rs:md or capability the kind is unknown, and only the rules for all
//     kinds are checked.
//   - Without rs:md in an entry nothing is said about its attributes, and nothing
//     is concluded from a value that is invalid.
//   - Datetimes of less than full precision are intervals; something is reported
//     only if it holds for all of their moments.
package lint
