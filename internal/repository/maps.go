package repository

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"instep/internal/catalog"
	"instep/internal/oaipmh"
)

// Maps gives Published access to the published Resource Maps, which are items in
// Catalog.
type Maps struct {
	Items interface {
		Items(ctx context.Context, set catalog.SetID, kind string, from int64) iter.Seq2[catalog.Item, error]
	}
	Files fs.FS // the published documents
}

// mapKind is the kind of the items, equal to source.ItemMap.
const mapKind = "resourcemap"

// mapFormat is the metadata format for Resource Maps in Atom (ORE alpha §2.1).
var mapFormat = oaipmh.Format{Prefix: "rem_atom", Schema: "http://www.kbcafe.com/rss/atom.xsd.xml", Namespace: "http://www.w3.org/2005/Atom"}

// mapItem is a published map, decoded from the item of its set.
type mapItem struct {
	Number int64
	Key    string // its name
	Keys   []string
	At     time.Time // time of its last change
}

// mapRecordMark is the part of a map record's identifier between the URI of the map and
// the number of its item. The identifier must differ from the URI of the map (ORE alpha
// §2.1).
const mapRecordMark = "#record"

func (p *Published) mapIdentifier(m *mapItem) string {
	return p.BaseURL + m.Keys[0] + mapRecordMark + strconv.FormatInt(m.Number, 10)
}

// mapsFrom yields the maps of a set numbered from and above that exist in Atom and are
// not larger than harvesters accept.
func (p *Published) mapsFrom(ctx context.Context, set *PublishedSet, from int64) iter.Seq2[*mapItem, error] {
	return func(yield func(*mapItem, error) bool) {
		if p.Maps == nil {
			return
		}
		for row, err := range p.Maps.Items.Items(ctx, set.ID, mapKind, from) {
			m := &mapItem{}
			if err == nil {
				err = json.Unmarshal([]byte(row.Body), m)
			}
			if err == nil && len(m.Keys) == 0 {
				err = fmt.Errorf("resource map %q has no document", m.Key)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			info, err := fs.Stat(p.Maps.Files, m.Keys[0])
			if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > oaipmh.MaxRecord {
				continue
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// hasMaps reports whether any set has maps.
func (p *Published) hasMaps(ctx context.Context) (bool, error) {
	for i := range p.Shown {
		for _, err := range p.mapsFrom(ctx, &p.Shown[i], 0) {
			return err == nil, err
		}
	}
	return false, nil
}

// mapOf finds the map for the identifier of a record; nil if there is none.
func (p *Published) mapOf(ctx context.Context, identifier string) (*PublishedSet, *mapItem, error) {
	i := strings.LastIndex(identifier, mapRecordMark)
	if i < 0 {
		return nil, nil, nil
	}
	number, err := strconv.ParseInt(identifier[i+len(mapRecordMark):], 10, 64)
	if err != nil || number < 0 {
		return nil, nil, nil
	}
	for i := range p.Shown {
		for m, err := range p.mapsFrom(ctx, &p.Shown[i], number) {
			if err != nil {
				return nil, nil, err
			}
			if p.mapIdentifier(m) == identifier {
				return &p.Shown[i], m, nil
			}
			break
		}
	}
	return nil, nil, nil
}

// mapRecord returns the record of a map, with metadata if requested.
func (p *Published) mapRecord(set *PublishedSet, m *mapItem, prefix string, metadata bool) (r oaipmh.Record, err error) {
	r.Header = oaipmh.Header{Identifier: p.mapIdentifier(m), Datestamp: oaipmh.Stamp{Time: m.At.UTC().Truncate(time.Second)}}
	if set.Name != "" {
		r.Sets = []string{set.Name}
	}
	switch {
	case !metadata:
	case prefix == oaiDC.Prefix:
		r.Metadata = dublinCore(&entry{Resource: catalog.Resource{URI: p.BaseURL + m.Keys[0], Path: m.Key, Type: "application/atom+xml"}})
	default:
		r.Metadata, err = p.mapText(m)
	}
	return r, err
}

// mapText returns the text of a map without its XML declaration.
func (p *Published) mapText(m *mapItem) ([]byte, error) {
	text, err := readRecord(p.Maps.Files, m.Keys[0])
	if err != nil {
		return nil, err
	}
	if len(text) > oaipmh.MaxRecord {
		return nil, fmt.Errorf("file %q: %w: it grew beyond what a record may have", m.Keys[0], fs.ErrNotExist)
	}
	return bytes.TrimPrefix(text, []byte(declaration)), nil
}

// maps lists the maps of the set numbered above after.
func (l *lister) maps(after int64) error {
	if l.s.Prefix != mapFormat.Prefix && l.s.Prefix != oaiDC.Prefix {
		return nil
	}
	for m, err := range l.p.mapsFrom(l.ctx, l.at, after+1) {
		if err != nil {
			return err
		}
		if !l.in(m.At) {
			continue
		}
		r, err := l.p.mapRecord(l.at, m, l.s.Prefix, l.metadata)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in the meantime
		}
		if err != nil {
			return err
		}
		if !l.yield(oaipmh.Item{Record: r, Place: place{l.index, amongMaps, m.Number}.String()}, nil) {
			return errEnough
		}
	}
	return nil
}
