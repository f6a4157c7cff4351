package source

import (
	"context"
	"errors"
)

// resourceDump makes the packages, their manifests and the Resource Dump of d, or its
// index and parts (1.1 §11). The item has Key, Keys, Entries and Bytes.
func (m *maker) resourceDump(ctx context.Context, d *Dump) (Item, error) {
	return Item{}, errors.New("publishing: no Resource Dumps yet")
}

// changePackages makes packages of what is fresh in w, and the copies of their
// manifests (1.1 §13). The items, of kind ItemPackage, have Number, Key, Keys, From,
// Until, Entries, Bytes, Length and SHA256.
func (m *maker) changePackages(ctx context.Context, w *Window) ([]Item, error) {
	return nil, errors.New("publishing: no Change Dumps yet")
}
