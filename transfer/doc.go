// Package transfer brings large resources and packages into a file, so that a run which
// broke off goes on from there: with what is here already, verified as a whole at the end.
package transfer
