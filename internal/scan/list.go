package scan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"instep/fetch"
	"instep/internal/catalog"
	"instep/resourcesync"
)

// Listed is one entry of a listing. Only URI is required.
type Listed struct {
	URI        string
	LastMod    resourcesync.Datetime
	Length     resourcesync.Length
	Digests    resourcesync.Digests
	Type       string
	Encoding   string
	ChangeFreq resourcesync.ChangeFreq

	// Path is the file with the bytes, slash-separated below List.Tree; URL is where
	// the bytes are if there is no file. If both are empty, the bytes cannot be read,
	// and only the listed facts are recorded.
	Path, URL string
	At        time.Time // time in the attribute at of the list that has this entry
	// Version is a text that changes whenever the bytes may have changed; "" if there
	// is none. It is not published. Because of it, a resource without lastmod is not
	// requested in every scan.
	Version string

	// Remainder has the further attributes and the links of the resource: the text of a
	// resourcesync.Remainder without encoding and changefreq.
	Remainder string
	// Told says that the listing repeats statements of a Source. If such a statement
	// changes, a change of the resource is published even if the bytes stay the same.
	Told bool
	// Intact says that the file at Path is known to match Length and Digests. Such a
	// file is read only if its bytes are to be kept.
	Intact bool
	// The following fields belong to a listing of changes. Gone says that the resource
	// was deleted. Past says that the file at Path has other bytes by now, so that the
	// listed facts are recorded without reading it. Kept is the file that has the
	// earlier bytes, for List.Keep. Mark is the position after this change: see
	// List.Marks.
	Gone, Past bool
	Kept, Mark string
	// Out is the reason why the resource is not published; "" if it is published. If
	// the same bytes were published earlier, the resource stays published, unless Out
	// is Loop, since in doubt nothing is deleted.
	Out Reason
}

// Listing yields all resources of a set. A resource that is yielded more than once
// counts once. An error with a URI concerns only this resource, and an error without a
// URI concerns a part of the listing that could not be read. After either error the
// listing may go on. A list whose time (attribute at) is before since also counts as a
// part that could not be read.
type Listing func(ctx context.Context, since time.Time) iter.Seq2[Listed, error]

// List is an Input whose resources are listed elsewhere: in a Sitemap, a file of URLs,
// another Source, or a database table. It reads the bytes of a resource only if the
// resource is new or may have changed, and the listing does not have the digests to
// publish. In the catalog, a resource without a file has its URI as path.
//
// If a part of the listing cannot be read, nothing is deleted. A resource that cannot be
// read keeps its recorded state.
type List struct {
	Deps
	Listing Listing
	Client  *fetch.Client // client that fetches resources; required if a resource has a URL
	Tree    Tree          // the directory tree with the files that Listed.Path names; nil if there are none

	// Changes says that the listing has changes in order, each with the resulting state
	// of the resource. A resource occurs once for each of its changes. Resources that
	// are not listed keep their recorded state.
	Changes bool
	// Marks is the name of the setting that stores up to which position a log of
	// changes was recorded; "" if there is no log. The setting becomes the Mark of the
	// last recorded change, in the same transaction, and Plan.Mark when everything is
	// recorded. While a listing without Changes is recorded, and after a failure, the
	// setting is empty, so that the next listing is complete.
	Marks string

	// Include and Exclude are globs as in Dir. They are matched against the path of a
	// file. For a resource without a file they are matched against the part of its URI
	// after BaseURL, or after the scheme if the URI does not begin with BaseURL,
	// without percent-encoding.
	Include, Exclude []string
	Rules            []Rule // rules for the listed resources
}

// ErrListing means that no part of the list of resources could be read.
var ErrListing = errors.New("the list of resources cannot be read")

// listWork is a resource that has to be examined, or only recorded.
type listWork struct {
	Listed
	New        bool
	ETag       string // ETag and Last-Modified of the recorded state, for a conditional request; empty if the bytes are needed in any case
	LastServed string
	Also       string // one more digest algorithm, for the comparison with a recorded digest; "" if none is needed
	Label      bool   // the bytes are as recorded, so only type, encoding, changefreq and links are updated
	Was        bool   // the resource was a member before all listed changes (only for a listing of changes)
}

// recorded returns the state in which the resource will be recorded.
func (w *listWork) recorded() catalog.Resource {
	if w.Gone {
		return catalog.Resource{}
	}
	return catalog.Resource{URI: w.URI, Path: w.place(), Member: true, Stored: true, Length: w.Length, Digests: w.Digests, Type: w.Type,
		Encoding: w.Encoding, LastMod: w.LastMod, ChangeFreq: w.ChangeFreq, Remainder: w.Remainder}
}

// listStat is the JSON that is stored in catalog.Resource.Stat for a listed resource.
type listStat struct {
	Listed     string `json:"listed,omitempty"` // signature of the listing; "" if the bytes may change without changing it
	ETag       string `json:"etag,omitempty"`
	LastServed string `json:"last_served,omitempty"` // header Last-Modified of the response with the bytes
	URL        string `json:"url,omitempty"`         // URL of the bytes; "" if it is the URI of the resource
}

func parseListStat(text string) listStat {
	var s listStat
	if json.Unmarshal([]byte(text), &s) != nil {
		return listStat{} // the text was written by another kind of Input, so it says nothing about a listing
	}
	return s
}

func (s listStat) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it cannot fail, since all fields are strings
	}
	return string(text)
}

// listedStat returns the signature of the listing, and the URL of the bytes if it is
// not the URI.
func (e *Listed) listedStat() listStat {
	s := listStat{Listed: e.signature()}
	if e.URL != e.URI {
		s.URL = e.URL
	}
	return s
}

// signature returns a text of those listed facts that change when the bytes change.
func (e *Listed) signature() string {
	length := ""
	if e.Length.Known() {
		length = fmt.Sprint(e.Length.Int64())
	}
	text := fmt.Sprintf("%s %s %s %s", e.LastMod, length, e.Digests, e.URL)
	if e.Version != "" {
		text += " " + e.Version
	}
	return text
}

// telling reports whether every change of the bytes after the given time must change
// the signature. A lastmod of the same day or second may stay the same.
func (e *Listed) telling(read time.Time) bool {
	return e.Version != "" || len(e.Digests) > 0 || e.URL == "" || !e.LastMod.IsZero() && e.LastMod.End().Before(read.Add(-racyWindow))
}

// called returns the recorded resource with the type, encoding, changefreq and further
// attributes of the listing. If the listing has no type, or no encoding of bytes that
// are fetched, the recorded ones stay.
func (e *Listed) called(known *catalog.Resource) catalog.Resource {
	r := *known
	r.Type, r.Encoding, r.ChangeFreq = cmp.Or(e.Type, r.Type), cmp.Or(e.Encoding, r.Encoding), e.ChangeFreq
	r.Remainder = e.Remainder
	if e.Path != "" || e.URL == "" {
		r.Encoding = e.Encoding
	}
	if e.Told {
		r.LastMod = e.LastMod
	}
	return r
}

// retold reports whether the listing repeats statements of a Source (see Listed.Told),
// and one of them has changed.
func (e *Listed) retold(known *catalog.Resource) bool {
	now := e.called(known)
	return e.Told && (!calledAlike(&now, known) || now.LastMod != known.LastMod || now.Remainder != known.Remainder)
}

// holds reports whether the listed bytes are the recorded bytes, by path, length and
// digests.
func (e *Listed) holds(known *catalog.Resource) bool {
	return known.Path == e.place() && known.Length == e.Length && agree(known.Digests, e.Digests)
}

// comparable reports whether the listing has a digest by an algorithm of a recorded
// digest.
func (e *Listed) comparable(known *catalog.Resource) bool {
	return slices.ContainsFunc(known.Digests, func(d resourcesync.Digest) bool { return !e.Digests.Get(d.Algorithm()).IsZero() })
}

// place returns the path of the resource in the catalog.
func (e *Listed) place() string {
	if e.Path != "" {
		return e.Path
	}
	return e.URI
}

// name returns the path of the file, or the name that is made of the URI (see NameOf).
// Globs are matched against it, and its extension gives the media type.
func (l *List) name(e *Listed) string {
	if e.Path != "" {
		return e.Path
	}
	return NameOf(l.BaseURL, e.URI)
}

// dir returns a Dir with the tree that has the listed files.
func (l *List) dir() *Dir { return &Dir{Deps: l.Deps, Tree: l.Tree} }

// sinceSetting is the name of the setting with the time (attribute at) of the last
// listing of the set.
func (l *List) sinceSetting() string { return fmt.Sprintf("listed %d", l.Set) }

func (l *List) since(ctx context.Context) (time.Time, error) {
	text, ok, err := l.Facts.Setting(ctx, l.sinceSetting())
	if err != nil || !ok {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%w: setting %q: %w", catalog.ErrDamaged, l.sinceSetting(), err)
	}
	return t, nil
}

// strong returns the HTTP validators of a response that change with every byte: an ETag
// that is not weak, and a Last-Modified that is not so recent that the next version may
// have the same one.
func strong(r *fetch.Response) (etag, lastModified string) {
	if !strings.HasPrefix(r.Validators.ETag, "W/") {
		etag = r.Validators.ETag
	}
	modified, err := http.ParseTime(r.Validators.LastModified)
	if err == nil && modified.Before(r.Date().Add(-racyWindow)) {
		lastModified = r.Validators.LastModified
	}
	return etag, lastModified
}
