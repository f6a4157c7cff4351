// Package transfer brings the bytes of resources and packages, verified, from the first place
// that has them. Large ones come into files, so that an interrupted run can be continued.
package transfer
