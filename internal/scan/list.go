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

// Listed is one entry of a listing. All fields except URI may be empty.
type Listed struct {
	URI        string
	LastMod    resourcesync.Datetime
	Length     resourcesync.Length
	Digests    resourcesync.Digests
	Type       string
	Encoding   string
	ChangeFreq resourcesync.ChangeFreq

	// Where the bytes are: in the file at Path, slash-separated below List.Tree, or
	// else at URL. If both are empty the bytes are not available, and only the listed
	// facts are recorded.
	Path, URL string
	At        time.Time // at of the list with this entry
	// Version changes whenever the bytes may have changed; "" if unknown. It is not
	// published. With it a resource without lastmod is not requested again.
	Version string

	// Remainder has further facts about the resource: the text of a
	// resourcesync.Remainder without encoding and changefreq.
	Remainder string
	// Told: the listing repeats the statements of a Source, which may change while the
	// bytes do not. Such a change is published as a change of the resource.
	Told bool
	// Intact: the file at Path is known to match Length and Digests. It is read only if
	// its bytes are to be kept.
	Intact bool
	// For a listing of changes. Gone: the resource was deleted. Past: the file at Path has other
	// bytes by now, so the listed facts are recorded without reading it; Kept is the file that
	// has the earlier bytes, for List.Keep. Mark is the position after this change: see
	// List.Marks.
	Gone, Past bool
	Kept, Mark string
	// Out, if not "", is the reason why the resource is not published. If exactly these bytes
	// are already published they stay, unless Out is Loop: in doubt nothing is deleted.
	Out Reason
}

// Listing yields all resources of a set; duplicates count once. An error with a URI
// concerns only that resource. An error without a URI concerns a part of the listing
// that could not be read. The loop may continue after either. A list whose at is older
// than since also counts as a part that could not be read.
type Listing func(ctx context.Context, since time.Time) iter.Seq2[Listed, error]

// List is an Input whose resources are listed elsewhere: in a sitemap, a file of URLs,
// another Source, or a database table. It reads bytes only to hash resources that are new or
// may have changed, and only if the listing lacks the wanted digests. In the catalog, a
// resource without a file has its URI as path.
//
// If a part of the listing cannot be read, nothing is deleted. A resource that cannot be
// read keeps its recorded state.
type List struct {
	Deps
	Listing Listing
	Client  *fetch.Client // fetches resources; required if a resource has a URL
	Tree    Tree          // the directory of the files in Path; nil if there are none

	// Changes: the listing contains changes in order, each with the resulting state. A
	// resource appears once per change. Resources that are not listed keep their
	// recorded state.
	Changes bool
	// Marks, if not "", is the name of the setting that stores how far a log of changes
	// was recorded. It is set to the Mark of the last change, in the same transaction,
	// and to Plan.Mark when all is recorded. It is empty while a listing without
	// Changes is recorded and after failures: the next listing must then be complete.
	Marks string

	// Include and Exclude are globs as in Dir. They are matched against the path of a
	// file, or against the part of a URI after BaseURL (for other URIs, after the
	// scheme), without percent-encoding.
	Include, Exclude []string
	Rules            []Rule // rules for the listed resources
}

// ErrListing means that no part of a listing could be read.
var ErrListing = errors.New("the list of resources cannot be read")

// listWork is a resource that has to be examined, or only recorded.
type listWork struct {
	Listed
	New        bool
	ETag       string // HTTP validators of the recorded state; empty if the bytes are needed in any case
	LastServed string
	Also       string // as item.Also
	Label      bool   // the bytes are as recorded: only the labels are updated
	Was        bool   // for a listing of changes: the resource was a member before all listed changes
}

// recorded returns the resource as it is after the work is done.
func (w *listWork) recorded() catalog.Resource {
	if w.Gone {
		return catalog.Resource{}
	}
	return catalog.Resource{URI: w.URI, Path: w.place(), Member: true, Stored: true, Length: w.Length, Digests: w.Digests, Type: w.Type,
		Encoding: w.Encoding, LastMod: w.LastMod, ChangeFreq: w.ChangeFreq, Remainder: w.Remainder}
}

// listStat is the JSON in Resource.Stat of a listed resource.
type listStat struct {
	Listed     string `json:"listed,omitempty"` // signature of the listing, if a later change must alter it
	ETag       string `json:"etag,omitempty"`
	LastServed string `json:"last_served,omitempty"` // Last-Modified of the response
	URL        string `json:"url,omitempty"`         // URL of the bytes, if that is not the URI
}

func parseListStat(text string) listStat {
	var s listStat
	if json.Unmarshal([]byte(text), &s) != nil {
		return listStat{} // written by another kind of Input: unusable
	}
	return s
}

func (s listStat) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot happen: strings only
	}
	return string(text)
}

// listedStat returns the stat to record for a resource. It contains the signature only
// if every later change must alter it.
func (e *Listed) listedStat() listStat {
	s := listStat{Listed: e.signature()}
	if e.URL != e.URI {
		s.URL = e.URL
	}
	return s
}

// signature combines the fields that change with the bytes.
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

// telling reports whether every change of the bytes after read alters the signature. A
// lastmod of the same day or second may not change.
func (e *Listed) telling(read time.Time) bool {
	return e.Version != "" || len(e.Digests) > 0 || e.URL == "" || !e.LastMod.IsZero() && e.LastMod.End().Before(read.Add(-racyWindow))
}

// called returns a recorded resource with the labels of the listing. If the listing has
// no type, or no encoding for fetched bytes, the recorded ones stay.
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

// retold reports whether the listing states other facts about the same
// bytes, which count as a change.
func (e *Listed) retold(known *catalog.Resource) bool {
	now := e.called(known)
	return e.Told && (!calledAlike(&now, known) || now.LastMod != known.LastMod || now.Remainder != known.Remainder)
}

// holds reports whether the listed bytes are the recorded ones.
func (e *Listed) holds(known *catalog.Resource) bool {
	return known.Path == e.place() && known.Length == e.Length && agree(known.Digests, e.Digests)
}

// comparable reports whether the listing has a digest that can be compared with a
// recorded one.
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

// name returns the path against which globs are matched and by which media types are
// found.
func (l *List) name(e *Listed) string {
	if e.Path != "" {
		return e.Path
	}
	return NameOf(l.BaseURL, e.URI)
}

// dir returns the directory of the listed files.
func (l *List) dir() *Dir { return &Dir{Deps: l.Deps, Tree: l.Tree} }

// sinceSetting is the name of the setting that stores the time (attribute at) of the last listing
// of a set.
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

// strong returns only those validators of a response that change with every byte: no
// weak ETag, and no Last-Modified so recent that the next version may have the same.
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
