package lint

import (
	"fmt"

	"instep/resourcesync"
)

// Exactly one field of a check is set.
type check struct {
	entry func(*run, *Rule, *entry)                     // called for each readable entry
	link  func(*run, *Rule, *entry, *resourcesync.Link) // checks one link of a readable entry
	root  func(*run, *Rule)                             // called at the end of the document, when the header is complete
	steps func(*run, *Rule) steps                       // starts a check that keeps data from one entry to the next
}

// steps are the functions of a check that keeps data from one entry to the next. A function
// that is nil is not called.
type steps struct {
	entry func(*entry) // called for each readable entry
	end   func()       // called at the end of the document, when the header is complete
}

func (c check) begin(r *run, rule *Rule) steps {
	switch {
	case c.entry != nil:
		return steps{entry: func(e *entry) { c.entry(r, rule, e) }}
	case c.link != nil:
		return eachLink(func(e *entry, l *resourcesync.Link) { c.link(r, rule, e, l) })
	case c.root != nil:
		return steps{end: func() { c.root(r, rule) }}
	case c.steps != nil:
		return c.steps(r, rule)
	}
	return steps{}
}

// noted has the families of rules that the Decoder checks. Each note of the Decoder about
// such a rule becomes a finding.
var noted = map[string]bool{
	"reader-limits": true, "xml-well-formed": true, "root-element-urlset-or-sitemapindex": true,
	"namespace-sitemap": true, "namespace-rs-terms": true, "entry-element-matches-root": true,
	"limit-50000-items": true, "limit-50mb": true, "root-md-single": true, "root-capability-case": true,
	"root-capability-unknown": true, "entry-loc-required": true, "entry-loc-single": true,
	"loc-absolute-uri": true, "entry-no-attributes": true, "entry-md-not-repeatable": true,
	"changefreq-values": true, "capabilitylist-entry-capability-defined": true, "entry-capability-case": true,
	"rs-attr-no-prefix": true, "ext-attr-namespace": true, "hash-algorithm-token": true, "hash-hex-digest": true,
	"hash-digest-length": true, "hash-algorithm-unknown": true, "length-integer": true,
	"type-media-type-syntax": true, "pri-range": true, "path-leading-slash": true, "path-no-traversal": true,
	"change-values": true, "w3cdtf": true, "utc-recommended": true, "ln-attr-required": true,
	"ln-href-absolute-uri": true, "dlib-loc-required": true, "dlib-limit-50000": true, "sitemap-priority": true,
	"text-between-elements": true, "ext-attr-prefix": true, "table3": true,
}

// checks maps families of rules to their checks. It has no families that the Decoder checks
// alone, and none whose violations a single document cannot show.
var checks = map[string]check{
	"quirk": {steps: quirk},
	// Rules about Sitemaps for search engines.
	"sitemap-rs-elements":      {steps: sitemapElements},
	"sitemap-foreign-elements": {steps: sitemapForeign},
	"sitemap-scope":            {steps: sitemapScope},
	// Rules about the root.
	"root-md-required":                 {root: rootMetadata},
	"root-capability-required":         {root: rootCapability},
	"archives-capability-values":       {steps: archiveCapability},
	"capability-value":                 {steps: capabilityValue},
	"at-required":                      {root: rootTimeRequired},
	"from-required":                    {root: rootTimeRequired},
	"root-time-scope":                  {root: rootTimeScope},
	"root-time-attrs-undefined":        {root: rootTimeUndefined},
	"manifest-root-urlset":             {root: noSuchIndex},
	"capabilitylist-index-discouraged": {root: noSuchIndex},
	// Rules about the links of the root.
	"up-required":                            {root: upRequired},
	"up-single":                              {root: upSingle},
	"index-link-only-on-urlset":              {root: indexOnIndex},
	"description-describedby-recommended":    {root: rootDescribedBy},
	"capabilitylist-describedby-recommended": {root: rootDescribedBy},
	// Rules of the proposal of 2013.
	"dlib-namespace":            {root: dlibNamespace},
	"dlib-root-md-capability":   {root: dlibCapability},
	"dlib-root-md-modified":     {root: dlibModified},
	"dlib-manifest-path-unique": {steps: pathUnique},
	"dlib-top-link":             {root: upRequired},
	// Rules about entries.
	"entry-md-required":                         {entry: entryMetadata},
	"entry-attribute-recommended":               {steps: entryAttribute},
	"type-recommended":                          {steps: typeRecommended},
	"path-required":                             {entry: pathRequired},
	"change-required":                           {entry: changeRequired},
	"lastmod-required":                          {entry: lastmodRequired},
	"lastmod-omit":                              {entry: lastmodOmit},
	"capabilitylist-entry-capability-required":  {entry: entryCapability},
	"capabilitylist-entry-not-a-capability":     {entry: notACapability},
	"entry-per-thing":                           {steps: oneEntryPerCapability},
	"description-entry-describedby-recommended": {entry: entryDescribedBy},
	"audit-needs-metadata":                      {steps: auditable},
	// Rules about attributes (1.1 §7, Table 3).
	"ext-attr-prefix":              {entry: datetimeIn10},
	"table3":                       {root: table3},
	"type-registered":              {entry: typeRegistered},
	"path-scope":                   {entry: pathScope},
	"manifest-path-unique":         {steps: pathUnique},
	"change-scope":                 {entry: changeScope},
	"datetime-scope":               {entry: changeScope},
	"datetime-every-entry-helps":   {steps: datetimeEverywhere},
	"resourcedump-zip-recommended": {entry: packageType},
	"resourcedump-zip-specified":   {entry: packageType},
	"changedump-zip-specified":     {entry: packageType},
	"same-format":                  {steps: samePackageType},
	// Rules about times and their order.
	"datetime-within-interval":            {entry: datetimeWithin},
	"entry-time-scope":                    {steps: entryTimeScope},
	"completed-needs-at":                  {entry: needsBegin},
	"until-needs-from":                    {entry: needsBegin},
	"completed-not-before-at":             {steps: endBeforeBegin},
	"until-not-before-from":               {steps: endBeforeBegin},
	"entry-at-within-root-snapshot":       {entry: entryWithinRoot},
	"entry-interval-within-root-interval": {entry: entryWithinRoot},
	"forward-order":                       {steps: forwardOrder},
	"change-uri-datetime-unique":          {steps: changeUnique},
	// Rules about links (1.1 §14).
	"ln-rel-registered-or-uri":           {steps: relation},
	"ln-duplicate-omit-md-attrs":         {link: duplicateAttributes},
	"ln-patch-type-required":             {link: patchType},
	"ln-patch-scope":                     {steps: patchScope},
	"ln-patch-path-required-in-manifest": {link: patchPath},
	"ln-memento-single":                  {entry: singleLink},
	"ln-memento-corresponds-to-lastmod":  {link: mementoOfLastmod},
	"ln-timegate-no-other-attrs":         {link: timegateAttributes},
	"ln-via-keep-only-existing":          {entry: singleLink},
}

func (r *run) begin() {
	for i := range book().rules {
		rule := &book().rules[i]
		if rule.Checkable != "static" || !rule.concerns(r.readKind) || !r.wants(rule) {
			continue
		}
		s := checks[rule.Family].begin(r, rule)
		if s.entry != nil {
			r.perEntry = append(r.perEntry, s.entry)
		}
		if s.end != nil {
			r.atEnd = append(r.atEnd, s.end)
		}
	}
}

func (r *run) checkEntry() {
	for _, f := range r.perEntry {
		f(r.entry)
	}
	r.later.count(r.entry)
}

func (r *run) end() {
	for _, f := range r.atEnd {
		f()
	}
	r.decideLater()
}

// undecided has the findings about rules of edition 1.0 in a document that may follow 1.0
// or 1.1. They are reported at the end of the document, unless something that only 1.1 has
// shows that the document follows 1.1.
type undecided struct {
	findings []Finding
	dropped  int
	entries  int
	is11     bool // whether the document contains something that only edition 1.1 has
}

// mostUndecided is the largest number of findings that undecided.findings may hold.
const mostUndecided = 1_000

func (u *undecided) add(f Finding) {
	if len(u.findings) >= mostUndecided {
		u.dropped++
		return
	}
	u.findings = append(u.findings, f)
}

func (u *undecided) count(e *entry) {
	u.entries++
	if !e.Datetime.IsZero() || e.LastMod.IsZero() || e.hasNote("datetime-w3cdtf", "lastmod-w3cdtf") {
		u.is11 = true
	}
}

// undecidedWants reports whether a rule of edition 1.0 is checked in a document that is
// read as 1.1 but may follow 1.0.
func (r *run) undecidedWants(rule *Rule) bool {
	return r.auto && r.profile == Profile11 && rule.In(Profile10) && listsChanges(r.readKind)
}

func (r *run) decideLater() {
	u := &r.later
	if u.is11 || u.entries == 0 {
		return
	}
	for _, f := range u.findings {
		r.emit(f)
	}
	if u.dropped > 0 {
		last := u.findings[len(u.findings)-1]
		last.Line, last.Column, last.Entry = r.seen.Line, r.seen.Column, ""
		last.Message = fmt.Sprintf("%d more findings of edition 1.0 are left out", u.dropped)
		r.emit(last)
	}
}

func listsChanges(kind string) bool { return kind == "changelist" || kind == "changedump-manifest" }

func isManifest(kind string) bool {
	return kind == "resourcedump-manifest" || kind == "changedump-manifest"
}
