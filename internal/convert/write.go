package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"instep/internal/spool"
	"instep/resourcesync"
)

// write first encodes the entries to a temporary file, in the order in which they were read.
// Then it copies the encoded entries, sorted by time, to the result.
func (c *converter) write(ctx context.Context, d *document, out io.Writer) (err error) {
	head, tail, err := c.encodeFrame()
	if err != nil {
		return err
	}
	unordered := spool.NewFile(c.o.Temp, 0)
	defer func() { err = errors.Join(err, unordered.Close()) }()
	entries, err := c.encode(ctx, d, unordered, int64(len(head)))
	if err != nil {
		return err
	}
	entries = c.order(entries)
	result := spool.NewFile(c.o.Temp, 0)
	defer func() { err = errors.Join(err, result.Close()) }()
	if err := c.assemble(ctx, head, unordered, entries, tail, result); err != nil {
		return err
	}
	if err := c.verify(ctx, result.Reader(), len(entries)); err != nil {
		return err
	}
	c.report.Entries = int64(len(entries))
	if c.report.Bytes, err = io.Copy(out, result.Reader()); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// encode writes a document with every usable entry to w. The parameter offset is the length
// of the document's header in bytes.
func (c *converter) encode(ctx context.Context, d *document, w io.Writer, offset int64) ([]encodedEntry, error) {
	enc, err := resourcesync.NewEncoder(w, c.header)
	if err != nil {
		return nil, err
	}
	var entries []encodedEntry
	for it, err := range d.items.All() {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		loc := it.Entry.Loc
		if rule, why := c.convertEntry(&it); why != "" {
			c.leaveOut(it.Part, it.Entry.Line, rule, loc, why)
			continue
		}
		before := enc.Bytes()
		err := enc.Encode(it.Entry)
		var bad *resourcesync.EncodeError
		switch {
		case errors.Is(err, resourcesync.ErrFull):
			return nil, c.tooLarge(d, enc.Count())
		case errors.As(err, &bad):
			c.leaveOut(it.Part, it.Entry.Line, bad.Rule, loc, shortly(bad))
			continue
		case err != nil:
			return nil, err
		}
		p := c.encodedEntryOf(&it)
		p.start, p.size = offset, enc.Bytes()-before
		offset += p.size
		entries = append(entries, p)
	}
	return entries, enc.Close()
}

func shortly(e *resourcesync.EncodeError) string {
	if e.Value == "" {
		return fmt.Sprintf("no %s; %s", e.Field, e.Msg)
	}
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Msg)
}

func (c *converter) tooLarge(d *document, written int) error {
	const hint = "divide the document into parts with an index, and convert each part"
	if written >= resourcesync.MaxEntries {
		return c.refuse("limit-50000-items", hint, "the document has %d entries; 1.1 allows %d in one", d.items.Len(), resourcesync.MaxEntries)
	}
	return c.refuse("limit-50mb", hint, "the document would have more than %d bytes after %d of its %d entries", resourcesync.MaxBytes, written, d.items.Len())
}

func (c *converter) encodedEntryOf(it *item) encodedEntry {
	e := &it.Entry
	p := encodedEntry{line: e.Line, part: it.Part}
	switch {
	case c.nature.changes:
		p.when = e.Datetime
	case c.nature.windows && !e.From.IsZero():
		p.when = e.From
	case c.nature.windows:
		p.when = e.Until
	}
	if e.Path != "" {
		p.path = resourcesync.KeyOf(e.Path)
		if len(e.Digests) > 0 && e.Length.Known() {
			p.bitstream = resourcesync.KeyOf(fmt.Sprint(e.Digests, e.Length.Int64()))
		}
	}
	return p
}

// order sorts the encoded entries by time, and leaves out those that a later entry replaces.
func (c *converter) order(entries []encodedEntry) []encodedEntry {
	rule := c.nature.name + "-order"
	if c.nature.changes {
		rule += "-datetime"
	}
	switch sortByTime(entries) {
	case reversed:
		c.noteDocument(rule, "entries with the newest first; written oldest first")
	case sorted:
		c.noteDocument(rule, "entries not in order of time; written oldest first")
	}
	gone := replacedEntries(entries)
	if len(gone) == 0 {
		return entries
	}
	out := entries[:0]
	for i, p := range entries {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
			c.leaveOut(p.part, p.line, "manifest-path-unique", "", "a later entry uses the same path for another bitstream")
			continue
		}
		out = append(out, p)
	}
	return out
}

// encodeFrame returns the bytes of the result before its entries and those after them.
func (c *converter) encodeFrame() (head, tail []byte, err error) {
	var empty bytes.Buffer
	enc, err := resourcesync.NewEncoder(&empty, c.header)
	var bad *resourcesync.EncodeError
	if errors.As(err, &bad) {
		return nil, nil, c.refuse(bad.Rule, "", "the header can't be converted to 1.1: %s", shortly(bad))
	}
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	cut := bytes.LastIndex(empty.Bytes(), []byte("</"))
	return empty.Bytes()[:cut], empty.Bytes()[cut:], nil
}

// assemble writes the result. It reads the encoded entries, in their new order, from the
// temporary file in which they are unordered.
func (c *converter) assemble(ctx context.Context, head []byte, unordered io.ReaderAt, entries []encodedEntry, tail []byte, out io.Writer) error {
	w := out
	if c.o.Gzip {
		w = gzip.NewWriter(out) // the gzip header has no name and time, so the same document always gives the same bytes
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	var buf []byte
	for _, p := range entries {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if int64(cap(buf)) < p.size {
			buf = make([]byte, p.size)
		}
		buf = buf[:p.size]
		if n, err := unordered.ReadAt(buf, p.start); n < len(buf) {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	if _, err := w.Write(tail); err != nil {
		return err
	}
	if zip, ok := w.(*gzip.Writer); ok {
		return zip.Close()
	}
	return nil
}

// verify reads the result with a strict Decoder, so that no invalid document is written.
func (c *converter) verify(ctx context.Context, r io.Reader, entries int) error {
	dec := resourcesync.NewDecoder(r, resourcesync.WithTolerance(resourcesync.Strict))
	n := 0
	for _, err := range dec.Entries() {
		if err == nil {
			err = context.Cause(ctx)
		}
		var de *resourcesync.DecodeError
		if errors.As(err, &de) {
			return &RefusedError{Name: c.o.Name, Rule: de.Rule, Msg: "the result is not valid in 1.1", Err: err}
		}
		if err != nil {
			return err
		}
		n++
	}
	if n != entries {
		return fmt.Errorf("read the result back: %d entries; expected %d", n, entries)
	}
	return nil
}
