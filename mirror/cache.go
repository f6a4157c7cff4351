package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"instep/fetch"
	"instep/internal/catalog"
)

const (
	documentsName = "documents" // the name of the directory for documents, which is in the state directory
	maxDocuments  = 64 << 20    // the largest total size of the stored documents, in bytes
	maxFields     = 64 << 10    // the largest size of the metadata in a document's file, in bytes
	blockSize     = 4 << 10     // the disk space of a file is counted in blocks of this number of bytes
)

// Documents implements destination.Mirror. It stores documents in the directory
// "documents" of the state directory. Anybody may remove these files at any time.
func (m *Mirror) Documents() fetch.Cache {
	if m.docs == nil {
		return nil
	}
	return m.docs
}

// documents stores each document in a file named by a hash of its URI. The first line of
// the file is the SHA-256 of the rest, the second line is a keptDocument in JSON, and the
// document follows. The files are not synced: the SHA-256 reveals a file that a crash
// damaged.
type documents struct {
	root     *os.Root // the state directory
	readOnly bool

	mu    sync.Mutex
	files map[string]keptFile // the stored files by name; nil until Store is called
	total int64
}

type keptFile struct {
	size int64
	when time.Time
}

type keptDocument struct {
	URI          string      `json:"uri"` // the URI that was requested
	URL          string      `json:"url"` // the URL from which the response came, after redirects
	ETag         string      `json:"etag,omitempty"`
	LastModified string      `json:"last_modified,omitempty"`
	Fields       http.Header `json:"fields,omitempty"`
}

func (m *Mirror) openDocuments() error {
	root, err := os.OpenRoot(m.o.state())
	if err != nil {
		return err
	}
	m.docs = &documents{root: root, readOnly: m.readOnly}
	m.close = append(m.close, root.Close)
	return nil
}

func documentPath(name string) string { return documentsName + "/" + name }

func documentName(uri string) string {
	key := catalog.SumOf(uri)
	return hex.EncodeToString(key[:])
}

// Load implements fetch.Cache.
func (d *documents) Load(_ context.Context, uri string) (*fetch.Cached, error) {
	f, err := d.root.Open(documentPath(documentName(uri)))
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil
	}
	text := make([]byte, min(info.Size(), fetch.MaxCached+maxFields))
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, nil
	}
	sum, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(sum) != hexSum(rest) {
		return nil, nil
	}
	head, body, _ := bytes.Cut(rest, []byte("\n"))
	var k keptDocument
	if err := json.Unmarshal(head, &k); err != nil || k.URI != uri {
		return nil, nil
	}
	return &fetch.Cached{
		URL: k.URL, Header: k.Fields, Validators: fetch.Validators{ETag: k.ETag, LastModified: k.LastModified},
		Length: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Store implements fetch.Cache.
func (d *documents) Store(_ context.Context, uri string, c *fetch.Cached) {
	if d.readOnly {
		return
	}
	head, err := json.Marshal(keptDocument{uri, c.URL, c.Validators.ETag, c.Validators.LastModified, c.Header})
	if err != nil || len(head) > maxFields/2 {
		return
	}
	body, err := io.ReadAll(io.LimitReader(c.Body, fetch.MaxCached+1))
	if err != nil || len(body) > fetch.MaxCached {
		return
	}
	rest := slices.Concat(head, []byte("\n"), body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.list(); err != nil {
		return
	}
	name := documentName(uri)
	if err := d.replace(name, slices.Concat([]byte(hexSum(rest)+"\n"), rest)); err != nil {
		return
	}
	d.dropOldest(name)
}

// list reads the directory of documents when it is first called, and removes other
// files from it.
func (d *documents) list() error {
	if d.files != nil {
		return nil
	}
	if err := d.root.Mkdir(documentsName, oursMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	entries, err := fs.ReadDir(d.root.FS(), documentsName)
	if err != nil {
		return err
	}
	d.files = map[string]keptFile{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || len(e.Name()) != hex.EncodedLen(len(catalog.Sum{})) {
			_ = d.root.Remove(documentPath(e.Name()))
			continue
		}
		d.note(e.Name(), info)
	}
	return nil
}

func (d *documents) note(name string, info fs.FileInfo) {
	d.total -= d.files[name].size
	size := (info.Size() + blockSize - 1) / blockSize * blockSize
	d.files[name] = keptFile{size, info.ModTime()}
	d.total += size
}

func (d *documents) replace(name string, text []byte) error {
	temp := documentPath("new-" + name)
	err := d.root.WriteFile(temp, text, 0o600)
	if err == nil {
		err = d.root.Rename(temp, documentPath(name))
	}
	if err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	info, err := d.root.Lstat(documentPath(name))
	if err == nil {
		d.note(name, info)
	}
	return err
}

// dropOldest removes the oldest files until the rest takes at most maxDocuments bytes. It
// never removes the file named newest, which was just written.
func (d *documents) dropOldest(newest string) {
	if d.total <= maxDocuments {
		return
	}
	names := make([]string, 0, len(d.files))
	for name := range d.files {
		if name != newest {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return d.files[a].when.Compare(d.files[b].when) })
	for _, name := range names {
		if d.total <= maxDocuments {
			return
		}
		if err := d.root.Remove(documentPath(name)); err == nil || errors.Is(err, fs.ErrNotExist) {
			d.total -= d.files[name].size
			delete(d.files, name)
		}
	}
}
