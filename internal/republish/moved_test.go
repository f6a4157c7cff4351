package republish

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/mirror"
	"instep/resourcesync"
)

// TestWhatMovesFromASetToAnotherIsListed: a run puts a resource into the small set and takes it
// out of the large one, while the list is between the two. It is never without a set.
func TestWhatMovesFromASetToAnotherIsListed(t *testing.T) {
	ctx := t.Context()
	const small, large, moving = origin + "small.xml", origin + "large.xml", "x/moving"
	o := mirror.Options{Dir: t.TempDir(), Create: true}
	run, err := mirror.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := run.Bind(ctx, origin+"description.xml", origin); err != nil {
		t.Fatal(err)
	}
	commit := func(fill func(destination.Batch) error) {
		t.Helper()
		b, err := run.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Discard()
		if err = fill(b); err == nil {
			err = b.Commit(ctx, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wanted := func(name string) harvest.Resource {
		sum := sha256.Sum256([]byte(name))
		d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return harvest.Resource{URI: origin + name, Length: resourcesync.Bytes(int64(len(name))), Digests: resourcesync.Digests{d}, Changed: lastMod.Time()}
	}
	put := func(b destination.Batch, set, name string) error {
		_, err := b.Put(ctx, set, wanted(name), strings.NewReader(name), true)
		return err
	}
	commit(func(b destination.Batch) error {
		for i := range 3000 {
			if err := put(b, large, fmt.Sprintf("a/%04d", i)); err != nil {
				return err
			}
		}
		if err := put(b, large, moving); err != nil {
			return err
		}
		return put(b, small, "a/0000")
	})

	reader, err := mirror.OpenReadOnly(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	listed := 0
	for m, err := range members(ctx, reader, []string{small, large}, "") {
		if err != nil {
			t.Fatal(err)
		}
		if listed++; listed == 1 {
			commit(func(b destination.Batch) error { return b.Mark(ctx, small, wanted(moving)) })
			commit(func(b destination.Batch) error {
				return b.Delete(context.Background(), large, origin+moving, lastMod.Time().Add(time.Hour))
			})
		}
		if m.URI == origin+moving {
			return
		}
	}
	t.Errorf("of %d resources that were listed none is the one that moved: its deletion would be published", listed)
}
