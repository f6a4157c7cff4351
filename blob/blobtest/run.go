// Package blobtest tests implementations of blob.Bucket, and makes buckets that fail on
// demand for tests of their users.
package blobtest

import (
	"testing"

	"instep/blob"
)

// Run tests whether a bucket fulfils the contract of blob.Bucket. The function open
// returns a new, empty bucket for each test.
func Run(t *testing.T, open func(t *testing.T) blob.Bucket) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, b blob.Bucket)
	}{
		{"a stored object can be read", testReadBack},
		{"objects are invisible before Commit", testVisibility},
		{"a discarded batch leaves no object", testDiscard},
		{"a discarded object is not stored", testObjectDiscard},
		{"a batch can be committed only once", testSpent},
		{"readers see either the old or the new object", testReplace},
		{"IfAbsent returns ErrExist if an object exists", testIfAbsent},
		{"a replaced object remains available at Put.Keep", testKeep},
		{"Keep does not replace an object that was kept before", testKeepAgain},
		{"moves", testMove},
		{"deletes", testDelete},
		{"Take gives an object another key", testTake},
		{"a taken object that is not put stays at its key", testTakeNothing},
		{"Commit fails if a taken object was replaced", testTakeReplaced},
		{"a call of Sync does not change the result of a batch", testSync},
		{"Link shares the bytes of another object", testLink},
		{"Commit applies the calls in their order", testOrder},
		{"there is no object at a key that is only a prefix of other keys", testPrefixIsAbsent},
		{"a clash of a file and a directory loses no object", testClash},
		{"refuses invalid keys", testInvalidKeys},
		{"takes odd keys", testOddKeys},
		{"reads ranges", testRanges},
		{"lists by prefix", testList},
		{"calls fail after their context has ended", testContext},
		{"takes large objects", testLarge},
		{"one batch can have many objects", testMany},
		{"objects can be written concurrently", testConcurrentCreate},
		{"batches can be committed concurrently", testConcurrentCommit},
		{"the helpers Write and ReadAll work", testHelpers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}
