package source

import (
	"io/fs"
	"net/http"
	"time"
)

// HandlerOptions says what a handler serves. Only Dirs is required.
type HandlerOptions struct {
	// Dirs are laid over each other: the first that has a path answers. They come
	// from os.Root.FS, which never leads out of its directory.
	Dirs []fs.FS
	// Prefix is the path of the base URL, see PublicationInfo.Prefix; "" is "/".
	Prefix string
	// Hidden are slash-separated paths that are never served, with all below them,
	// such as a state directory that lies inside a served one.
	Hidden []string
	// Now gives the time for write deadlines; nil sets none.
	Now func() time.Time
	// Report is called with what went wrong inside the handler; nil discards it.
	Report func(error)
}

// NewHandler serves a published site read-only.
func NewHandler(o HandlerOptions) http.Handler { panic("pending") }

// NewServer returns a server for h with the limits of a public server.
func NewServer(h http.Handler) *http.Server { panic("pending") }

// PublicationInfo is what a publication says of itself in resourcesync/publication.json.
type PublicationInfo struct {
	Format  int    `json:"format_version"`
	State   string `json:"state"`    // UUID of the state that wrote it
	BaseURL string `json:"base_url"` // ends in "/"
}

// Prefix is the path of the base URL: where the publication has to be served.
func (p PublicationInfo) Prefix() string { panic("pending") }

// ReadPublicationInfo reads the publication.json of a published directory; an
// error that is fs.ErrNotExist if there is none.
func ReadPublicationInfo(dir fs.FS) (PublicationInfo, error) { panic("pending") }
