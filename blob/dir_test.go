package blob_test

import (
	"testing"

	"instep/blob"
	"instep/blob/blobtest"
)

func openDir(t *testing.T, name string) *blob.Dir {
	t.Helper()
	d, err := blob.OpenDir(name, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDirIsABucket(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Bucket { return openDir(t, t.TempDir()) })
}

func TestMemIsABucket(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Bucket { return blob.NewMem() })
}
