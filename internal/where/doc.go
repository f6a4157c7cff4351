// Package where selects resources by the XML records that describe them (1.1 §14.5).
// Conditions `XPATH=VALUE` say what a record must contain.
//
// Since a record comes from somebody else, there are limits for its length, its depth,
// the time of its transfer, and the work of evaluating an expression on it.
package where
