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

// openWhole transfers and opens the whole package. A transfer that broke off and cannot
// be continued is repeated as often as the client repeats a failed request.
func (p *Transport) openWhole(ctx context.Context, ref *harvest.Package) (*Opened, error) {
	for failed := 1; ; failed++ {
		opened, err := p.transfer(ctx, ref)
		if !p.Client.Again(ctx, failed, err) {
			return opened, err
		}
	}
}

// transfer verifies the package by the length and digests in the dump. If the transfer
// is interrupted, the received bytes of a large package are kept for a later run.
func (p *Transport) transfer(ctx context.Context, ref *harvest.Package) (*Opened, error) {
	part := p.openPart(ctx, ref)
	first, err := p.requestPackage(ctx, ref, part)
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

func wanted(ref *harvest.Package) *harvest.Resource {
	return &harvest.Resource{URI: ref.URI, Length: ref.Length, Digests: ref.Digests}
}

// LargeSize is the minimum size in bytes of a package whose interrupted transfer is
// kept for a later run. Making a smaller package durable costs more than transferring
// it again.
const LargeSize = 32 << 20

func isLarge(ref *harvest.Package) bool {
	return ref.Length.Known() && ref.Length.Int64() >= LargeSize
}

// openPart returns the file in which a package is stored during its transfer. If the
// package is large or of unknown length, the mirror can keep the file for a later run.
// Otherwise it is a temporary file.
func (p *Transport) openPart(ctx context.Context, ref *harvest.Package) transfer.Part {
	if p.Parts != nil && (isLarge(ref) || !ref.Length.Known()) {
		if part, err := p.Parts.Part(ctx, ref.URI); err == nil && part != nil { // an error is ignored: a read-only mirror returns one, and then a temporary file is used
			return part
		}
	}
	return transfer.Temporary(p.Spool)
}

// requestPackage requests a package. It returns an error if the first bytes show that
// the file is no ZIP package, and nil if an earlier run has left a part of the package.
func (p *Transport) requestPackage(ctx context.Context, ref *harvest.Package, part transfer.Part) (*fetch.Response, error) {
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
