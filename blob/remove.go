package blob

import "context"

// Remove deletes the objects with the given keys in one batch.
func Remove(ctx context.Context, b Bucket, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	batch, err := b.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Discard()
	for _, key := range keys {
		batch.Delete(key)
	}
	return batch.Commit(ctx)
}
