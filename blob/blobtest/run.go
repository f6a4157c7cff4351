// Package blobtest tests implementations of blob.Bucket, and makes buckets that fail on
// demand for tests of their users.
package blobtest

import (
	"testing"

	"instep/blob"
)

// Run tests whether a bucket fulfils the contract of blob.Bucket. open returns a new,
// empty bucket for each test.
func Run(t *testing.T, open func(t *testing.T) blob.Bucket) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, b blob.Bucket)
	}{
		{"reads back what was put", testReadBack},
		{"shows nothing before commit", testVisibility},
		{"leaves nothing after discard", testDiscard},
		{"drops a discarded object", testObjectDiscard},
		{"spends a batch once", testSpent},
		{"replaces the whole object under readers", testReplace},
		{"fails with ErrExist when asked not to replace", testIfAbsent},
		{"keeps the old object", testKeep},
		{"keeps the first old object when done again", testKeepAgain},
		{"moves", testMove},
		{"deletes", testDelete},
		{"takes what is there under another key", testTake},
		{"leaves what was taken and not put", testTakeNothing},
		{"takes nothing that was replaced meanwhile", testTakeReplaced},
		{"works in the order of the calls", testOrder},
		{"treats a prefix as absent", testPrefixIsAbsent},
		{"loses nothing when a file meets a directory", testClash},
		{"refuses invalid keys", testInvalidKeys},
		{"takes odd keys", testOddKeys},
		{"reads ranges", testRanges},
		{"lists by prefix", testList},
		{"stops when the context is done", testContext},
		{"takes large objects", testLarge},
		{"takes many objects in one batch", testMany},
		{"takes objects written concurrently", testConcurrentCreate},
		{"takes batches committed concurrently", testConcurrentCommit},
		{"writes and reads with the helpers", testHelpers},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}
