//go:build !linux && !darwin

package durable

var at *calls // there are none
