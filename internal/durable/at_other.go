//go:build !linux && !darwin

package durable

var at *calls // not available on this system
