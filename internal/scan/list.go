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
	At        time.Time // the time in the attribute at of the list that contains this entry
	// Version is a text that changes whenever the bytes may have changed; "" if there
	// is none. It is not published. It saves a request in every scan for a resource
	// without lastmod.
	Version string

	// Remainder has the further attributes and the links of the resource: the text of a
	// resourcesync.Remainder without encoding and changefreq.
	Remainder string
	// Told says that the listing repeats statements of a Source. If such a statement
	// changes, a change of the resource is published even if the bytes stay the same.
	Told bool
	// Intact says that the file at Path is known to have the stated Length and Digests.
	// Such a file is read only if its bytes are to be kept.
	Intact bool
	// The following fields are only for a listing of changes. Gone says that the
	// resource was deleted. Past says that the file at Path now has other bytes than
	// the listed state, which is recorded without reading the file. Kept is the path of
	// a file that still has the bytes of that earlier state, for List.Keep. Mark is the
	// position in the log after this change: see List.Marks.
	Gone, Past bool
	Kept, Mark string
	// Out is the reason why the resource must not be published; "" if it may be. If the
	// listed bytes are published already, the resource stays published, since in doubt
	// nothing is deleted. It does not stay if Out is Loop.
	Out Reason
}

// Listing yields all resources of a set. If it yields a resource more than once, this
// counts once. An error with a URI concerns only that resource. An error without a URI
// concerns a part of the listing that could not be read. A list whose time (attribute at)
// is before since also counts as such a part. After an error the listing may go on.
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
	Tree    Tree          // the tree of the files to which Listed.Path refers; nil if there are none

	// Changes says that the listing has changes in order, each with the resulting state
	// of the resource. A resource occurs once for each of its changes. Resources that
	// are not listed keep their recorded state.
	Changes bool
	// Marks is the name of a setting, for a listing that comes from a log of changes;
	// "" if there is no log. The setting stores how far the log was recorded. It
	// becomes the Mark of the last recorded change, in the same transaction, and
	// Plan.Mark when everything is recorded. While a listing without Changes is
	// recorded, and after a failure, it is empty, so that the next listing is complete.
	Marks string

	// Include and Exclude are globs, as in Dir. For a resource with a file they are
	// matched against the path of the file. For any other resource they are matched
	// against a part of its URI, without percent-encoding: the part after BaseURL or,
	// if the URI does not begin with BaseURL, after the scheme.
	Include, Exclude []string
	Rules            []Rule // the rules for the types, encodings and links of listed resources
}

// ErrListing means that no part of the list of resources could be read.
var ErrListing = errors.New("the list of resources cannot be read")

// listWork is a listed resource that Apply has to examine, or only to record.
type listWork struct {
	Listed
	New        bool
	ETag       string // ETag and LastServed are the validators (ETag and Last-Modified) of the recorded state, for a conditional request; "" if the bytes are needed in any case
	LastServed string
	Also       string // an additional digest algorithm, for the comparison with a recorded digest; "" if none is needed
	Label      bool   // the bytes have not changed, so only type, encoding, changefreq and links are recorded
	Was        bool   // in a listing of changes: the resource was a member of the set before the first of these changes
}

// recorded returns the state that the resource will have in the catalog after this work.
func (w *listWork) recorded() catalog.Resource {
	if w.Gone {
		return catalog.Resource{}
	}
	return catalog.Resource{URI: w.URI, Path: w.place(), Member: true, Stored: true, Length: w.Length, Digests: w.Digests, Type: w.Type,
		Encoding: w.Encoding, LastMod: w.LastMod, ChangeFreq: w.ChangeFreq, Remainder: w.Remainder}
}

// listStat is stored as JSON in catalog.Resource.Stat for a resource of a List.
type listStat struct {
	Listed     string `json:"listed,omitempty"` // the signature of the listed facts; "" if the bytes may change without changing it
	ETag       string `json:"etag,omitempty"`
	LastServed string `json:"last_served,omitempty"` // header Last-Modified of the response with the bytes
	URL        string `json:"url,omitempty"`         // URL of the bytes; "" if it is the URI of the resource
}

func parseListStat(text string) listStat {
	var s listStat
	if json.Unmarshal([]byte(text), &s) != nil {
		return listStat{} // another kind of Input wrote the text, which says nothing about a listing
	}
	return s
}

func (s listStat) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // Marshal cannot fail, since all fields are strings
	}
	return string(text)
}

// listedStat returns a listStat with the signature of the listed facts, and with the URL of
// the bytes if it is not the URI.
func (e *Listed) listedStat() listStat {
	s := listStat{Listed: e.signature()}
	if e.URL != e.URI {
		s.URL = e.URL
	}
	return s
}

// signature returns a text made of those listed facts that change when the bytes change.
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

// telling reports whether the signature must change if the bytes change after the time
// read. A recent lastmod is not enough for that, since the next one may be the same day or
// second.
func (e *Listed) telling(read time.Time) bool {
	return e.Version != "" || len(e.Digests) > 0 || e.URL == "" || !e.LastMod.IsZero() && e.LastMod.End().Before(read.Add(-racyWindow))
}

// called returns a copy of a recorded resource with the type, encoding, changefreq and
// further attributes that the listing states. The recorded type stays if the listing states
// none. So does the recorded encoding if the bytes are fetched from a URL.
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

// retold reports whether the listing repeats statements of a Source (see Listed.Told) and
// one of these differs from the recorded one.
func (e *Listed) retold(known *catalog.Resource) bool {
	now := e.called(known)
	return e.Told && (!calledAlike(&now, known) || now.LastMod != known.LastMod || now.Remainder != known.Remainder)
}

// holds reports whether path, length and digests say that the recorded bytes are the listed
// ones.
func (e *Listed) holds(known *catalog.Resource) bool {
	return known.Path == e.place() && known.Length == e.Length && agree(known.Digests, e.Digests)
}

// comparable reports whether the listing and the recorded state have digests by a common
// algorithm.
func (e *Listed) comparable(known *catalog.Resource) bool {
	return slices.ContainsFunc(known.Digests, func(d resourcesync.Digest) bool { return !e.Digests.Get(d.Algorithm()).IsZero() })
}

// place returns the path that the resource has in the catalog: that of its file, or else
// its URI.
func (e *Listed) place() string {
	if e.Path != "" {
		return e.Path
	}
	return e.URI
}

// name returns the path of the file or, if there is none, a name made of the URI (see
// NameOf). Globs are matched against this name, and its extension decides the media type.
func (l *List) name(e *Listed) string {
	if e.Path != "" {
		return e.Path
	}
	return NameOf(l.BaseURL, e.URI)
}

// dir returns a Dir for the tree with the listed files.
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

// strong returns those HTTP validators of a response that change with every change of the
// bytes: an ETag that is not weak, and a Last-Modified that is so old that the next version
// cannot have the same one. Others are "".
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
