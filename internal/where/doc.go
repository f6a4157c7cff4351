// Package where chooses resources by the XML records that describe them (1.1 §14.5): by
// conditions `XPATH=VALUE` on what a record says.
//
// A record is somebody else's document: its length, its depth, the time of its transfer and
// the work of evaluating an expression on it are bounded.
package where
