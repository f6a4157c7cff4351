// Package lint checks ResourceSync documents against the standard: ANSI/NISO Z39.99 in its
// editions 1.1 and 1.0, Archives 0.9.1, and the proposal of 2013 in D-Lib Magazine. It also
// checks sites against the rules for the discovery of OAI-ORE Resource Maps
// ([Checker.ResourceMaps]).
//
// A [Checker] reads a document as a stream and reports a [Finding] for each place
// that does not follow a [Rule]. The catalogue of rules ([Rules], [Lookup]) says
// what each demands, where the standard says so and what the owner of a Source
// should do. The Decoder of package resourcesync alone judges single elements,
// attributes and values; this package adds the checks that depend on the kind of a
// document, on order, scope and on other entries.
//
// Some rules suppress others:
//
//   - A document that is no well-formed XML, has another root element or another
//     namespace gets no other finding than this one.
//   - Without rs:md or capability the kind is unknown, and only the rules for all
//     kinds are checked.
//   - An entry without rs:md gets no findings about missing attributes, and no rule
//     uses a value that is invalid.
//   - A datetime without seconds is an interval; a finding about it is true for all
//     moments of the interval.
package lint
