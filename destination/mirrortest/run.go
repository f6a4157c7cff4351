// Package mirrortest has the tests of the contract of destination.Mirror, which every
// implementation must pass.
package mirrortest

import (
	"errors"
	"slices"
	"testing"

	"instep/destination"
)

// Run tests an implementation of destination.Mirror. Each call of open must return a
// new, empty mirror for the Source at Origin.
func Run(t *testing.T, open func(t *testing.T) destination.Mirror) {
	for _, c := range append([]struct {
		name string
		test func(*testing.T, *tester)
	}{
		{"AnEmptyMirrorKnowsNothing", testEmpty},
		{"NothingIsVisibleBeforeCommit", testVisibility},
		{"ADiscardedBatchLeavesNothing", testDiscard},
		{"WhatWasPutIsHeld", testPut},
		{"AFailedReaderKeepsNothing", testFailedReader},
		{"NewBytesReplaceOldOnes", testReplace},
		{"ApplyingABatchAgainIsHarmless", testAgain},
		{"BytesGoWithTheLastSet", testSets},
		{"DeletingWhatIsUnknownIsHarmless", testDeleteUnknown},
		{"MarkTouchesNoBytes", testMark},
		{"DueStaysUntilTheBytesCome", testDue},
		{"DueOfAnUnknownURIIsAMember", testDueUnknown},
		{"ReadingEndsWithItsContext", testOpenEnds},
		{"CopyTakesTheBytesOfAnotherURI", testCopy},
		{"ContentIsFoundByDigestAndLength", testFindContent},
		{"KeysAreInOrder", testKeys},
		{"WhatChangesSayIsKept", testTold},
		{"WhatAListSaysLaterIsNoChange", testToldEnds},
		{"DeletionsAreRemembered", testGone},
		{"ADeletionIsRememberedUntilItIsMadeAgain", testGoneEnds},
		{"ANewerListForgetsWhatChangesSaid", testListed},
		{"CursorsMoveWithTheirBatch", testCursor},
		{"CursorsNeverGoBack", testCursorBack},
		{"AWithheldPlanIsNotApproved", testWithhold},
		{"LossesCountSinceTheSetWasInStep", testLosses},
		{"WhatNobodyConsentedToIsLost", testConsent},
		{"PutsAndCopiesMayBeConcurrent", testConcurrent},
		{"OneBatchIsFilledWhileAnotherCommits", testTwoBatches},
		{"URIsThatLookAlikeAreApart", testLookalikes},
	}, slices.Concat(parts, remainders)...) {
		t.Run(c.name, func(t *testing.T) { c.test(t, &tester{t, open(t)}) })
	}
}

var errReader = errors.New("the connection broke")
