package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"

	"instep/blob"
)

const (
	infoFormat   = 1
	maxInfoBytes = 64 << 10
)

// PublicationInfo is the content of resourcesync/publication.json, which identifies a
// publication.
type PublicationInfo struct {
	Format  int     `json:"format_version"`
	State   string  `json:"state"`    // the UUID of the state directory from which the publication was written
	BaseURL string  `json:"base_url"` // ends in "/"
	Aliases Aliases `json:"aliases,omitzero"`
}

// Prefix returns the path of the base URL. The publication has to be served below this
// path.
func (i PublicationInfo) Prefix() string {
	u, err := url.Parse(i.BaseURL)
	if err != nil || u.Path == "" {
		return "/"
	}
	return u.Path
}

// ReadPublicationInfo reads the publication.json of a published directory. It returns
// fs.ErrNotExist if there is none and *NotOursError if another program wrote it.
func ReadPublicationInfo(dir fs.FS) (PublicationInfo, error) {
	f, _, err := openRegular(dir, infoKey)
	if err != nil {
		return PublicationInfo{}, fmt.Errorf("reading %q: %w", infoKey, err)
	}
	defer f.Close()
	return readInfo(f)
}

func readInfo(r io.Reader) (PublicationInfo, error) {
	var i PublicationInfo
	text, err := io.ReadAll(io.LimitReader(r, maxInfoBytes))
	if err != nil {
		return i, fmt.Errorf("reading %q: %w", infoKey, err)
	}
	err = json.Unmarshal(text, &i)
	if err == nil && i.Format != infoFormat {
		err = fmt.Errorf("expected format_version %d, found %d", infoFormat, i.Format)
	}
	if err == nil {
		_, err = ParseBaseURL(i.BaseURL)
	}
	if err != nil {
		return i, fmt.Errorf("%w: reading %q: %w", &NotOursError{infoKey}, infoKey, err)
	}
	return i, nil
}

// CheckState returns a *WrongStateError if the bucket contains a publication from another
// state directory, and a *NotOursError if another program wrote its publication.json.
func (p *Publisher) CheckState(ctx context.Context) error {
	r, _, err := p.Bucket.Get(ctx, infoKey, 0, -1)
	switch {
	case errors.Is(err, blob.ErrNotExist):
		return nil
	case errors.Is(err, blob.ErrForeign):
		return &NotOursError{infoKey}
	case err != nil:
		return fmt.Errorf("reading %q: %w", infoKey, err)
	}
	defer r.Close()
	i, err := readInfo(r)
	if err != nil {
		return err
	}
	if i.State != p.UUID {
		return &WrongStateError{Found: i.State, Want: p.UUID, BaseURL: i.BaseURL}
	}
	return nil
}
