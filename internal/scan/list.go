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

	// Path is the slash-separated path, below List.Tree, of the file with the bytes. URL is
	// the URL of the bytes if there is no file. If both are empty, the bytes cannot be
	// read, and only the listed facts are recorded.
	Path, URL string
	At        time.Time // the time in the "at" attribute of the list that contains this entry
	// Version is a text that changes whenever the bytes may have changed; "" if there is
	// none. It is not published. With a Version, a scan need not request a resource without
	// "lastmod" to know whether it has changed.
	Version string

	// Remainder has the further attributes and the links of the resource: the text of a
	// resourcesync.Remainder without encoding and changefreq.
	Remainder string
	// Told means that the listing repeats statements of a Source. If such a statement
	// changes, a change of the resource is published even if the bytes stay the same.
	Told bool
	// Intact means that the file at Path is known to have the stated Length and Digests.
	// Such a file is read only if its bytes are to be kept.
	Intact bool
	// The following fields are only for a listing of changes. Gone means that the resource
	// was deleted. Past means that the file at Path has other bytes by now, so the listed
	// state is recorded without reading the file. Kept is the path of a file that still
	// has the bytes of that earlier state, to be copied to List.Keep. Mark is the position
	// in the log after this change: see List.Marks.
	Gone, Past bool
	Kept, Mark string
	// Out is the reason why the resource must not be published; "" if it may be published.
	// If the listed bytes are published already, the resource stays published, unless Out
	// is Loop.
	Out Reason
}

// Listing yields all resources of a set. If it yields a resource more than once, the
// resource counts once. An error with a URI concerns only that resource. An error without
// a URI concerns a part of the listing that could not be read, or a list whose "at"
// attribute is earlier than the parameter since. After an error the listing may continue.
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

	// Changes means that the listing has changes in order, each with the resulting state of
	// the resource. A resource occurs once for each of its changes. Resources that are not
	// listed keep their recorded state. It is no failure that a file no longer has the bytes
	// of a state if a later state of the resource follows.
	Changes bool
	// Marks is the name of the setting that stores up to which position a log of changes was
	// recorded; "" if the listing comes from no log. Each transaction sets it to the Mark of
	// the last change in that transaction. At the end Apply sets it to Plan.Mark. It is ""
	// while a complete listing is recorded, and after a failure, so that the next listing is
	// complete.
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

// listWork is a listed resource that Apply has to examine or to record.
type listWork struct {
	Listed
	New        bool
	ETag       string // ETag and LastServed are the headers "ETag" and "Last-Modified" of the recorded state, for a conditional request; "" if the bytes are needed in any case
	LastServed string
	Also       string // an additional digest algorithm, for the comparison with a recorded digest; "" if none is needed
	Label      bool   // whether the bytes have not changed, so that only type, encoding, changefreq and links are recorded
	Was        bool   // in a listing of changes, whether the resource was a member of the set before the first listed change
	Number     int64  // the position of this resource in the plan, counted from 1
}

func (w *listWork) stateAfter() catalog.Resource {
	if w.Gone {
		return catalog.Resource{}
	}
	return catalog.Resource{URI: w.URI, Path: w.catalogPath(), Member: true, Stored: true, Length: w.Length, Digests: w.Digests, Type: w.Type,
		Encoding: w.Encoding, LastMod: w.LastMod, ChangeFreq: w.ChangeFreq, Remainder: w.Remainder}
}

// listStat is stored as JSON in catalog.Resource.Stat for a resource of a List.
type listStat struct {
	Listed     string `json:"listed,omitempty"` // the signature of the listed facts; "" if the bytes may change while the signature stays the same
	ETag       string `json:"etag,omitempty"`
	LastServed string `json:"last_served,omitempty"` // the "Last-Modified" header of the response with the bytes
	URL        string `json:"url,omitempty"`         // URL of the bytes; "" if the bytes are at the URI of the resource
}

func parseListStat(text string) listStat {
	var s listStat
	if json.Unmarshal([]byte(text), &s) != nil {
		return listStat{} // another kind of Input wrote this text, so it has no facts about a listing
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

func (e *Listed) listedStat() listStat {
	s := listStat{Listed: e.signature()}
	if e.URL != e.URI {
		s.URL = e.URL
	}
	return s
}

// signature returns a text of those listed facts that change whenever the bytes change.
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

// showsChanges reports whether the signature must change if the bytes change after the
// given moment. A recent "lastmod" is not enough, because the "lastmod" of the next
// version may be the same day or second.
func (e *Listed) showsChanges(moment time.Time) bool {
	return e.Version != "" || len(e.Digests) > 0 || e.URL == "" || !e.LastMod.IsZero() && e.LastMod.End().Before(moment.Add(-racyWindow))
}

// withLabels returns a copy of a recorded resource with the type, encoding, changefreq and
// further attributes that the listing states. If the listing states no type, the recorded
// type stays. If it states no encoding and the bytes are fetched from a URL, the recorded
// encoding stays.
func (e *Listed) withLabels(known *catalog.Resource) catalog.Resource {
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

// statementsChanged reports whether the listing repeats statements of a Source (see
// Listed.Told) and one of these statements differs from the recorded one.
func (e *Listed) statementsChanged(known *catalog.Resource) bool {
	now := e.withLabels(known)
	return e.Told && (!sameLabels(&now, known) || now.LastMod != known.LastMod || now.Remainder != known.Remainder)
}

func (e *Listed) describesRecorded(known *catalog.Resource) bool {
	return known.Path == e.catalogPath() && known.Length == e.Length && agree(known.Digests, e.Digests)
}

func (e *Listed) hasCommonAlgorithm(known *catalog.Resource) bool {
	return slices.ContainsFunc(known.Digests, func(d resourcesync.Digest) bool { return !e.Digests.Get(d.Algorithm()).IsZero() })
}

// catalogPath returns the path of the resource in the catalog: the path of its file or, if there
// is no file, its URI.
func (e *Listed) catalogPath() string {
	if e.Path != "" {
		return e.Path
	}
	return e.URI
}

// name returns the path of the file or, if there is no file, a name that is derived from
// the URI (see NameOf). Globs are matched against this name, and its extension decides the
// media type.
func (l *List) name(e *Listed) string {
	if e.Path != "" {
		return e.Path
	}
	return NameOf(l.BaseURL, e.URI)
}

func (l *List) dir() *Dir { return &Dir{Deps: l.Deps, Tree: l.Tree} }

// sinceSetting is the name of the setting with the "at" time of the last listing of the
// set.
func (l *List) sinceSetting() string { return fmt.Sprintf("listed %d", l.Set) }

func (l *List) lastListing(ctx context.Context) (time.Time, error) {
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

// strongValidators returns those HTTP validators of a response that change with every
// change of the bytes. A weak ETag is left out, and so is a Last-Modified that is so recent
// that the next version may have the same one.
func strongValidators(r *fetch.Response) (etag, lastModified string) {
	if !strings.HasPrefix(r.Validators.ETag, "W/") {
		etag = r.Validators.ETag
	}
	modified, err := http.ParseTime(r.Validators.LastModified)
	if err == nil && modified.Before(r.Date().Add(-racyWindow)) {
		lastModified = r.Validators.LastModified
	}
	return etag, lastModified
}
