package main

import "testing"

// A base URL may have a path with escapes: the host is what counts.
func TestSitesOfOneHostMayHaveEscapedPaths(t *testing.T) {
	first, second := &site{base: "http://example.org/a%20b/"}, &site{base: "http://example.org/c/"}
	if err := oneHost(first, second, []string{"c"}); err != nil {
		t.Error(err)
	}
	if err := oneHost(first, &site{base: "https://example.org/c/"}, []string{"c"}); err == nil {
		t.Error("another scheme: got no error")
	}
}
