// Package where chooses resources by the XML records that describe them (1.1 §14.5),
// with conditions `XPATH=VALUE` on the content of a record.
//
// A record is somebody else's document, so its length, its depth, the time of its
// transfer and the work of evaluating an expression on it are bounded.
package where
