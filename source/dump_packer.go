package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"instep/pack"
	"instep/resourcesync"
)

const defaultPackageBytes = 1 << 30

// packer puts bitstreams (resources with their bytes) into packages, in the given order.
// It holds the entries of one package in memory, but not the bytes.
type packer struct {
	m       *maker
	header  resourcesync.Header   // the header of the next manifest
	until   resourcesync.Datetime // the end of the period of the last package in a Change Dump; zero means the time of its last change
	dir     string                // the prefix of the keys of the packages
	earlier int                   // the number of packages in dir before this packer began
	items   []Item                // the packages that this packer has written

	members []pack.Member // the members of the next package, except patches
	patches []pack.Member // the patches to which the members of the next package link
	bytes   int64         // the total length of members and patches in bytes
	trial   *resourcesync.Encoder
}

// pack writes packages with all bitstreams. It returns a *GoneError if the bytes of a
// bitstream no longer exist.
func (k *packer) pack(ctx context.Context, all iter.Seq2[Bitstream, error]) error {
	for b, err := range all {
		if err != nil {
			return fmt.Errorf("reading the resources to pack: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := k.add(ctx, b); err != nil {
			return err
		}
	}
	if len(k.members) == 0 {
		return nil
	}
	return k.endPackage(ctx, nil)
}

func (k *packer) add(ctx context.Context, b Bitstream) error {
	if k.bytes > 0 && b.Open != nil && k.bytes+b.Length.Int64() > k.limit() {
		if err := k.endPackage(ctx, &b.Entry); err != nil {
			return err
		}
	}
	err := k.addMember(b)
	if errors.Is(err, resourcesync.ErrFull) {
		if err := k.endPackage(ctx, &b.Entry); err != nil {
			return err
		}
		err = k.addMember(b)
	}
	return err
}

func (k *packer) limit() int64 { return cmp.Or(max(k.m.policy.PackageBytes, 0), defaultPackageBytes) }

// addMember adds a bitstream to the current package. It returns resourcesync.ErrFull if the
// manifest has no room for the entry. To find this out, it encodes the entry into a trial
// manifest that is not stored.
func (k *packer) addMember(b Bitstream) error {
	if k.trial == nil {
		enc, err := resourcesync.NewEncoder(io.Discard, k.trialHeader(), resourcesync.WithMaxEntries(k.m.p.MaxEntries))
		if err != nil {
			return fmt.Errorf("writing a manifest: %w", err)
		}
		k.trial = enc
	}
	member := memberOf(b, len(k.members)+1)
	patch, patched := patchMemberOf(&member.Entry, b, len(k.members)+1)
	if err := k.trial.Encode(k.m.inProfile(member.Entry)); err != nil {
		return fmt.Errorf("writing a manifest: %w", err)
	}
	k.members = append(k.members, member)
	if patched {
		k.patches = append(k.patches, patch)
		k.bytes += patch.Length.Int64()
	}
	if b.Open != nil {
		k.bytes += max(b.Length.Int64(), 0)
	}
	return nil
}

// trialHeader returns the header of the trial manifest. The end of the manifest's period is
// not known yet, so trialHeader uses a time with the longest possible text.
func (k *packer) trialHeader() resourcesync.Header {
	h := k.header
	if !h.From.IsZero() {
		h.Until = resourcesync.DatetimeOf(time.Date(9999, time.December, 31, 23, 59, 59, int(time.Second-time.Microsecond), time.UTC))
	}
	return h
}

// endPackage writes the current package. next is the first entry of the following package, or nil
// if there is none.
func (k *packer) endPackage(ctx context.Context, next *resourcesync.Entry) error {
	if k.earlier+len(k.items) >= maxPackages {
		return fmt.Errorf("publishing: the resources need more than %d packages of %d bytes: expected larger packages", k.earlier+len(k.items), k.limit())
	}
	if !k.header.From.IsZero() {
		k.header.Until = k.periodEnd(next)
	}
	for i := range k.members {
		k.members[i].Entry = k.m.inProfile(k.members[i].Entry)
	}
	item, err := k.write(ctx)
	if err != nil {
		return asGoneError(err)
	}
	k.items = append(k.items, item)
	clear(k.members) // frees the memory that the Open functions use
	clear(k.patches)
	k.members, k.patches, k.bytes, k.trial = k.members[:0], k.patches[:0], 0, nil
	if next != nil && !k.header.From.IsZero() {
		k.header.From = next.Datetime
	}
	return nil
}

func (k *packer) periodEnd(next *resourcesync.Entry) resourcesync.Datetime {
	switch {
	case next != nil:
		return next.Datetime
	case !k.until.IsZero():
		return k.until
	}
	return k.members[len(k.members)-1].Datetime
}

func (k *packer) write(ctx context.Context) (Item, error) {
	key := fmt.Sprintf("%s%05d", k.dir, k.earlier+len(k.items)+1)
	zip, manifest := key+".zip", key+"-manifest.xml"
	copied, err := k.m.st.draft(ctx, Document{Key: manifest, Rank: rankManifests, Immutable: true})
	if err != nil {
		return Item{}, err
	}
	placed, err := k.writePackage(ctx, zip, copied)
	if err != nil {
		copied.Discard()
		return Item{}, err
	}
	if err := copied.Commit(); err != nil {
		return Item{}, err
	}
	it := Item{
		Kind: ItemPackage, Key: zip, Keys: []string{zip, manifest}, Entries: int64(len(k.members)),
		Length: placed.Length, SHA256: placed.SHA256, Bytes: placed.Length + copied.doc.Length,
	}
	if !k.header.From.IsZero() {
		it.From, it.Until = k.header.From.Time(), k.header.Until.Time()
	}
	return it, nil
}

// writePackage writes the current package to its key, and a copy of the package's manifest
// to a writer. A preview reads no bytes, and takes the total length of the members as the
// length of the package.
func (k *packer) writePackage(ctx context.Context, key string, manifest io.Writer) (Document, error) {
	if k.m.preview() {
		doc := Document{Key: key, Rank: rankPackages, Immutable: true, Placed: true, Length: k.bytes}
		k.m.st.docs = append(k.m.st.docs, doc)
		return doc, writeManifest(manifest, k.header, k.members)
	}
	return k.m.placePackage(ctx, key, func(w io.Writer) error {
		_, err := new(pack.Writer).Write(ctx, w, func(inside io.Writer) error {
			return writeManifest(io.MultiWriter(inside, manifest), k.header, k.members)
		}, slices.Concat(k.members, k.patches))
		return err
	})
}

// GoneError reports that a resource could not be packed, because its bytes no longer
// exist or differ from those that its entry describes. Nothing was published.
type GoneError struct {
	URI string
	Err error
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("%q has changed since it was recorded: %v", e.URI, e.Err)
}
func (e *GoneError) Unwrap() error { return e.Err }

// asGoneError turns a MemberError into a GoneError if the bytes of the member no longer
// exist.
func asGoneError(err error) error {
	member, ok := errors.AsType[*pack.MemberError](err)
	if !ok {
		return err
	}
	if _, differs := errors.AsType[*resourcesync.MismatchError](member.Err); differs || errors.Is(member.Err, ErrGone) {
		return &GoneError{member.URI, member.Err}
	}
	return err
}
