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

// Maps gives access to the Resource Maps of a publication.
type Maps struct {
	Items interface {
		Items(ctx context.Context, set catalog.SetID, kind string, from int64) iter.Seq2[catalog.Item, error]
	}
	Files fs.FS // the directory with the published documents
}

// mapKind is the kind of Resource Maps among the items of a publication. It equals
// source.ItemMap, because this package must not import source.
const mapKind = "resourcemap"

// mapFormat is the metadata format for Resource Maps in Atom (ORE alpha §2.1).
var mapFormat = oaipmh.Format{Prefix: "rem_atom", Schema: "http://www.kbcafe.com/rss/atom.xsd.xml", Namespace: "http://www.w3.org/2005/Atom"}

type mapItem struct {
	Number int64
	Key    string // name of the map
	Keys   []string
	At     time.Time // last change of the Resource Map
}

// mapRecordMark separates the URI of a Resource Map and its number in the identifier of the
// record. That identifier must differ from the URI of the map (ORE alpha §2.1).
const mapRecordMark = "#record"

func (p *Published) mapIdentifier(m *mapItem) string {
	return p.BaseURL + m.Keys[0] + mapRecordMark + strconv.FormatInt(m.Number, 10)
}

// mapsFrom yields the Resource Maps of a set whose number is at least lowest. It omits
// maps whose Atom document is missing or too large for a record.
func (p *Published) mapsFrom(ctx context.Context, set *PublishedSet, lowest int64) iter.Seq2[*mapItem, error] {
	return func(yield func(*mapItem, error) bool) {
		if p.Maps == nil {
			return
		}
		for row, err := range p.Maps.Items.Items(ctx, set.ID, mapKind, lowest) {
			m := &mapItem{}
			if err == nil {
				err = json.Unmarshal([]byte(row.Body), m)
			}
			if err == nil && len(m.Keys) == 0 {
				err = fmt.Errorf("the Resource Map %q has no document", m.Key)
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

func (p *Published) hasMaps(ctx context.Context) (bool, error) {
	for i := range p.Shown {
		for _, err := range p.mapsFrom(ctx, &p.Shown[i], 0) {
			return err == nil, err
		}
	}
	return false, nil
}

// mapOf returns the Resource Map whose record has the identifier, and the set of the map.
// It returns nil if there is no such map.
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

func (p *Published) mapRecord(set *PublishedSet, m *mapItem, prefix string, withMetadata bool) (r oaipmh.Record, err error) {
	r.Header = oaipmh.Header{Identifier: p.mapIdentifier(m), Datestamp: oaipmh.Stamp{Time: m.At.UTC().Truncate(time.Second)}}
	if set.Name != "" {
		r.Sets = []string{set.Name}
	}
	switch {
	case !withMetadata:
	case prefix == oaiDC.Prefix:
		r.Metadata = dublinCore(&entry{Resource: catalog.Resource{URI: p.BaseURL + m.Keys[0], Path: m.Key, Type: "application/atom+xml"}})
	default:
		r.Metadata, err = p.mapText(m)
	}
	return r, err
}

// mapText returns the Atom document of a Resource Map without its XML declaration, because
// the document becomes an element of the response.
func (p *Published) mapText(m *mapItem) ([]byte, error) {
	text, err := readRecord(p.Maps.Files, m.Keys[0])
	if err != nil {
		return nil, err
	}
	if len(text) > oaipmh.MaxRecord {
		return nil, fmt.Errorf("file %q: %w: it is now too large for a record", m.Keys[0], fs.ErrNotExist)
	}
	return bytes.TrimPrefix(text, []byte(declaration)), nil
}

func (l *lister) yieldMaps(after int64) error {
	if l.s.Prefix != mapFormat.Prefix && l.s.Prefix != oaiDC.Prefix {
		return nil
	}
	for m, err := range l.p.mapsFrom(l.ctx, l.at, after+1) {
		if err != nil {
			return err
		}
		if !l.selects(m.At) {
			continue
		}
		r, err := l.p.mapRecord(l.at, m, l.s.Prefix, l.metadata)
		if errors.Is(err, fs.ErrNotExist) {
			continue // skip this map, because its file was removed after mapsFrom found it
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
