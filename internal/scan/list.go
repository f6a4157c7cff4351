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

// Listed is one entry of a listing. All fields but the URI may be empty.
type Listed struct {
	URI        string
	LastMod    resourcesync.Datetime
	Length     resourcesync.Length
	Digests    resourcesync.Digests
	Type       string
	Encoding   string
	ChangeFreq resourcesync.ChangeFreq

	// Where the bytes are: in the file at Path, slash-separated below List.Tree, else at
	// URL. If both are empty there are no bytes, and only the listed facts are known.
	Path, URL string
	At        time.Time // the moment of the list that says so
	// Version changes whenever the bytes may have changed; it is not published, and "" is
	// unknown. With it a resource without lastmod is not requested again.
	Version string

	// Remainder is what else is said of the resource: the text of a resourcesync.Remainder
	// without encoding and changefreq.
	Remainder string
	// Told: the listing is the word of a Source, which changes what it says of a resource
	// without changing bytes. What is said then in another way is published as a change.
	Told bool
	// Intact: the file at Path is known to have Length and Digests. It is not read unless its
	// bytes are to be kept.
	Intact bool
	// Of a listing of changes. Gone: the resource is no longer there. Past: the file at Path has
	// other bytes by now, so what is listed is recorded as it is; Kept is the file that has its
	// bytes, for List.Keep. Mark is the position after this change: see List.Marks.
	Gone, Past bool
	Kept, Mark string
	// Out, if not "", says why the resource is not published. One that is published with these
	// very bytes stays as it is, unless it is a Loop: doubt deletes nothing.
	Out Reason
}

// Listing yields all resources of a set; one that comes twice counts once. An error with a
// URI is about that resource alone, one without is about a part of the listing that could
// not be read; the loop may continue after either. A list whose stated moment is older than
// since is such a part.
type Listing func(ctx context.Context, since time.Time) iter.Seq2[Listed, error]

// List is an Input whose resources are listed elsewhere: in a sitemap, a file of URLs,
// another Source, a table. Bytes are read only to hash resources that are new or may have
// changed, and only if the listing does not give the wanted digests. A resource without a
// file has its URI for a path in the catalog.
//
// If a part of the listing cannot be read, nothing is deleted. A resource that cannot be
// read keeps its recorded state.
type List struct {
	Deps
	Listing Listing
	Client  *fetch.Client // fetches from URLs; required if there is one
	Tree    Tree          // the files that paths name; nil if there are none

	// Changes: the listing has changes in their order, each with what came of it, and one
	// resource several times where it changed several times. What it does not list is as
	// recorded.
	Changes bool
	// Marks, if not "", is the setting that keeps how far a log of changes was recorded: the
	// Mark of the last change, in the transaction that records it, and Plan.Mark when all is
	// recorded. It is "" while a listing that has no Changes is recorded, and after failures:
	// only all that there is has what is missing then.
	Marks string

	// Globs as those of Dir, matched against the path of a file, or against the part of a
	// URI after BaseURL (after the scheme, if it is elsewhere), without percent-encoding.
	Include, Exclude []string
	Rules            []Rule // rules for the listed resources
}

// ErrListing: nothing of a listing can be read.
var ErrListing = errors.New("the list of resources cannot be read")

// listWork is a resource to look at, or one of which all is known.
type listWork struct {
	Listed
	New        bool
	ETag       string // validators of the recorded state; none if the bytes are needed in any case
	LastServed string
	Also       string // as item.Also
	Label      bool   // the bytes are as recorded: only their labels are taken over
	Was        bool   // of a listing of changes: it was recorded as a member before all of these
}

// recorded is the resource as it is recorded once the work is done.
func (w *listWork) recorded() catalog.Resource {
	if w.Gone {
		return catalog.Resource{}
	}
	return catalog.Resource{URI: w.URI, Path: w.place(), Member: true, Stored: true, Length: w.Length, Digests: w.Digests, Type: w.Type,
		Encoding: w.Encoding, LastMod: w.LastMod, ChangeFreq: w.ChangeFreq, Remainder: w.Remainder}
}

// listStat is the content of Resource.Stat for a listed resource.
type listStat struct {
	Listed     string `json:"listed,omitempty"` // its signature, if a later change would show in that
	ETag       string `json:"etag,omitempty"`
	LastServed string `json:"last_served,omitempty"` // Last-Modified of the answer
	URL        string `json:"url,omitempty"`         // of the bytes, if that is not the URI
}

func parseListStat(text string) listStat {
	var s listStat
	if json.Unmarshal([]byte(text), &s) != nil {
		return listStat{} // written by another kind of input: no information for us
	}
	return s
}

func (s listStat) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it holds strings
	}
	return string(text)
}

// listedStat returns the stat to record for a resource, if no change can go unnoticed.
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

// telling reports whether the signature shows every change of bytes that were read at that
// moment or later: a lastmod of that day, or of that second, may stay as it is.
func (e *Listed) telling(read time.Time) bool {
	return e.Version != "" || len(e.Digests) > 0 || e.URL == "" || !e.LastMod.IsZero() && e.LastMod.End().Before(read.Add(-racyWindow))
}

// called returns a recorded resource with the labels of the listing. If the listing gives
// no type, or no coding of fetched bytes, those found with the bytes stay.
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

// retold reports whether the listing says something else of the same bytes, as a change.
func (e *Listed) retold(known *catalog.Resource) bool {
	now := e.called(known)
	return e.Told && (!calledAlike(&now, known) || now.LastMod != known.LastMod || now.Remainder != known.Remainder)
}

// holds reports whether the bytes that are listed are those recorded.
func (e *Listed) holds(known *catalog.Resource) bool {
	return known.Path == e.place() && known.Length == e.Length && agree(known.Digests, e.Digests)
}

// comparable reports whether the listing has a digest to compare with those recorded.
func (e *Listed) comparable(known *catalog.Resource) bool {
	return slices.ContainsFunc(known.Digests, func(d resourcesync.Digest) bool { return !e.Digests.Get(d.Algorithm()).IsZero() })
}

// place is the path of the resource in the catalog.
func (e *Listed) place() string {
	if e.Path != "" {
		return e.Path
	}
	return e.URI
}

// name returns the path that globs and media types are matched against.
func (l *List) name(e *Listed) string {
	if e.Path != "" {
		return e.Path
	}
	return NameOf(l.BaseURL, e.URI)
}

// dir is the directory of the files that are listed.
func (l *List) dir() *Dir { return &Dir{Deps: l.Deps, Tree: l.Tree} }

// sinceSetting is the setting that holds the moment of the last listing of a set.
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

// strong returns the validators of an answer that change with every byte: no weak ETag, and
// no Last-Modified so recent that the next version may have it too.
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
