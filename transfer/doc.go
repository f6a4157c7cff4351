// Package transfer fetches and verifies the bytes of resources and packages, from the
// first place that has them. Large ones are stored in files, so that an interrupted run
// can continue them.
package transfer
