package destination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"instep/fetch"
	"instep/internal/spool"
	"instep/pack"
	"instep/resourcesync"
)

// openWhole transfers a package and opens it. A body that broke off and could not go on
// is asked for again as often as any request.
func (d *Destination) openWhole(ctx context.Context, ref *packageRef) (*openedPackage, error) {
	for failed := 1; ; failed++ {
		p, err := d.transferPackage(ctx, ref)
		var fe *fetch.Error
		if !errors.As(err, &fe) || !fe.Restart || !d.Client.BackOff(ctx, failed) {
			return p, err
		}
	}
}

// transferPackage fetches a package, verifies it by what the dump says of it, and opens
// it. Of a large one a mirror keeps what came if the run ends before it is whole, or
// before everything was taken out of it.
func (d *Destination) transferPackage(ctx context.Context, ref *packageRef) (*openedPackage, error) {
	part := d.packagePart(ctx, ref)
	if part == nil {
		return d.spoolPackage(ctx, ref)
	}
	first, err := d.firstAnswer(ctx, ref, part)
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	w := ref.wanted()
	dl := &download{
		client: d.Client, part: part, req: request(w), length: ref.length, digests: ref.digests,
		accept: func(resp *fetch.Response) error { return plausible(w, resp) },
	}
	if err := dl.run(ctx, first); err != nil {
		return nil, errors.Join(err, dl.leave(ctx, err))
	}
	return d.openBytes(ref, part, part.Size())
}

// wanted is what the dump says of the bytes of a package.
func (ref *packageRef) wanted() *Wanted {
	return &Wanted{URI: ref.uri, Length: ref.length, Digests: ref.digests}
}

// largePackageSize is from which size on a package is worth to be kept, in bytes: to
// make the others durable costs more than to transfer them again.
const largePackageSize = 32 << 20

func (ref *packageRef) isLarge() bool {
	return ref.length.Known() && ref.length.Int64() >= largePackageSize
}

// packagePart is where a mirror keeps a large package, or nil.
func (d *Destination) packagePart(ctx context.Context, ref *packageRef) Part {
	keeper, ok := optional[Parts](d.Mirror)
	if !ok || ref.length.Known() && !ref.isLarge() {
		return nil
	}
	part, err := keeper.Part(ctx, ref.uri)
	if err != nil {
		return nil // such as one that is only read: then the package is a temporary file
	}
	return part
}

// firstAnswer asks for a package of which nothing is here yet, and looks at its first
// bytes: what is no package is not worth to be transferred.
func (d *Destination) firstAnswer(ctx context.Context, ref *packageRef, part Part) (*fetch.Response, error) {
	if part.Size() > 0 {
		return nil, nil
	}
	resp, err := d.Client.Get(ctx, request(ref.wanted()))
	if err != nil {
		return nil, &remoteError{err}
	}
	head, err := packageHead(ref, resp.Body)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return resp, nil
}

// packageHead reads the first bytes of a package, if it is one.
func packageHead(ref *packageRef, body io.Reader) ([]byte, error) {
	head := make([]byte, pack.SniffLength)
	n, err := io.ReadFull(remoteReader{ref.uri, body}, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if kind := pack.Sniff(head[:n]); kind != pack.KindZIP && kind != "" {
		return nil, otherFormat(ref.uri, kind)
	}
	return head[:n], nil
}

// spoolPackage is transferPackage into a temporary file.
func (d *Destination) spoolPackage(ctx context.Context, ref *packageRef) (_ *openedPackage, err error) {
	resp, err := d.Client.Get(ctx, request(ref.wanted()))
	if err != nil {
		return nil, &remoteError{err}
	}
	return d.spool(ref, resp)
}

// spool takes a package from an answer.
func (d *Destination) spool(ref *packageRef, resp *fetch.Response) (*openedPackage, error) {
	defer resp.Body.Close()
	w := ref.wanted()
	if err := plausible(w, resp); err != nil {
		return nil, &remoteError{err}
	}
	f := spool.NewFile(d.Spool, request(w).MaxBytes)
	if err := receivePackage(ref, f, resp.Body); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d.openBytes(ref, f, f.Len())
}

// receivePackage takes the bytes of a package, verified.
func receivePackage(ref *packageRef, to io.Writer, body io.Reader) error {
	body = resourcesync.NewVerifyReader(body, ref.length.Int64(), ref.digests)
	head, err := packageHead(ref, body)
	if err != nil {
		return err
	}
	if _, err := to.Write(head); err != nil {
		return err
	}
	if _, err := io.Copy(to, remoteReader{ref.uri, body}); err != nil {
		return fmt.Errorf("reading a package: %w", err)
	}
	return nil
}

// openBytes reads the directory of a package that is here.
func (d *Destination) openBytes(ref *packageRef, f packageBytes, size int64) (*openedPackage, error) {
	p := &openedPackage{ref: *ref, d: d, bytes: f}
	var err error
	if p.zip, err = pack.Open(f, size, pack.Limits{}); err != nil {
		return nil, errors.Join(badPackage(ref.uri, err), p.close())
	}
	return p, nil
}
