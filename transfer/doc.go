// Package transfer fetches large resources and packages into files, so that an interrupted
// run can be continued; the complete file is verified at the end.
package transfer
