package packages

import (
	"bytes"
	"context"
	"errors"
	"io"

	"instep/fetch"
	"instep/harvest"
	"instep/pack"
	"instep/transfer"
)

// openWhole transfers a package and opens it. A body that broke off and could not be
// continued is requested again as often as any request.
func (p *Transport) openWhole(ctx context.Context, ref *harvest.Package) (*Opened, error) {
	for failed := 1; ; failed++ {
		opened, err := p.transfer(ctx, ref)
		if !p.Client.Again(ctx, failed, err) {
			return opened, err
		}
	}
}

// transfer fetches a package, verifies it by the dump's description, and opens it. The
// transferred part of a large one is kept if the run ends before all members were taken.
func (p *Transport) transfer(ctx context.Context, ref *harvest.Package) (*Opened, error) {
	part := p.part(ctx, ref)
	first, err := p.firstAnswer(ctx, ref, part)
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	w := wanted(ref)
	dl := &transfer.Download{
		Client: p.Client, Part: part, Request: transfer.Request(w), Length: ref.Length, Digests: ref.Digests,
		Accept: func(resp *fetch.Response) error { return transfer.Plausible(w, resp) },
	}
	if err := dl.Run(ctx, first); err != nil {
		return nil, errors.Join(err, dl.Leave(ctx, err))
	}
	opened := &Opened{ref: ref, dir: p.Spool, bytes: part, most: p.Client.MaxDocument()}
	if opened.zip, err = pack.Open(part, part.Size(), pack.Limits{}); err != nil {
		return nil, errors.Join(badPackage(ref.URI, err), part.Discard())
	}
	return opened, nil
}

// wanted returns the dump's length and digests of a package.
func wanted(ref *harvest.Package) *harvest.Resource {
	return &harvest.Resource{URI: ref.URI, Length: ref.Length, Digests: ref.Digests}
}

// LargeSize is the size in bytes from which on partial transfers of packages are kept.
// Making smaller ones durable costs more than transferring them again.
const LargeSize = 32 << 20

func isLarge(ref *harvest.Package) bool {
	return ref.Length.Known() && ref.Length.Int64() >= LargeSize
}

// part returns the file for a package: one that is kept for a later run if the package is
// large or of unknown length and the mirror keeps such files, else a temporary one.
func (p *Transport) part(ctx context.Context, ref *harvest.Package) transfer.Part {
	if p.Parts != nil && (isLarge(ref) || !ref.Length.Known()) {
		if part, err := p.Parts.Part(ctx, ref.URI); err == nil { // a read-only mirror has none
			return part
		}
	}
	return transfer.Temporary(p.Spool)
}

// firstAnswer asks for a package of which nothing is here yet, and looks at its first bytes:
// another format is not transferred.
func (p *Transport) firstAnswer(ctx context.Context, ref *harvest.Package, part transfer.Part) (*fetch.Response, error) {
	if part.Size() > 0 {
		return nil, nil
	}
	resp, err := p.Client.Get(ctx, transfer.Request(wanted(ref)))
	if err != nil {
		return nil, &harvest.SourceError{Err: err}
	}
	head := make([]byte, pack.SniffLength)
	n, err := io.ReadFull(harvest.SourceReader{URI: ref.URI, Body: resp.Body}, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(err, resp.Body.Close())
	}
	if kind := pack.Sniff(head[:n]); kind != pack.KindZIP && kind != "" {
		return nil, errors.Join(harvest.OtherFormat(ref.URI, kind), resp.Body.Close())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), resp.Body), resp.Body}
	return resp, nil
}
