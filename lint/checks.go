package lint

import "fmt"

// steps are the callbacks of one rule for a document. A nil callback does nothing.
type steps struct {
	entry func(*entry) // called for each readable entry
	end   func()       // called at the end, when the header is complete
}

// check describes how the rules of one family are checked.
type check struct {
	noted bool                    // the Decoder checks the rule, and its notes become findings
	run   func(*run, *Rule) steps // checks what the Decoder does not; nil if there is nothing more
	by    string                  // the method that checks files that are not ResourceSync documents
}

// permitted is the check of a rule that only permits something, which no document can
// break.
func permitted(*run, *Rule) steps { return steps{} }

// covered is the check of a rule that summarises other rules, which report instead of
// it.
func covered(*run, *Rule) steps { return steps{} }

// checks maps each family of rules that a single document can break to its check.
var checks map[string]check

// set in init, since the checks refer back to the table
func init() {
	checks = make(map[string]check)
	for _, family := range notedFamilies {
		checks[family] = check{noted: true}
	}
	for _, family := range permittedFamilies {
		checks[family] = check{run: permitted}
	}
	for family, f := range documentChecks() {
		checks[family] = check{run: f, noted: alsoNoted[family]}
	}
	for family, f := range entryChecks() {
		checks[family] = check{run: f, noted: alsoNoted[family]}
	}
	for family, by := range plainChecks {
		checks[family] = check{by: by}
	}
}

// notedFamilies are the families of rules that the Decoder checks.
var notedFamilies = []string{
	"reader-limits", "xml-well-formed", "root-element-urlset-or-sitemapindex", "namespace-sitemap",
	"namespace-rs-terms", "entry-element-matches-root", "limit-50000-items", "limit-50mb", "root-md-single",
	"root-capability-case", "root-capability-unknown", "entry-loc-required", "entry-loc-single",
	"loc-absolute-uri", "entry-no-attributes", "entry-md-not-repeatable", "changefreq-values",
	"capabilitylist-entry-capability-defined", "entry-capability-case", "rs-attr-no-prefix",
	"ext-attr-namespace", "hash-algorithm-token", "hash-hex-digest", "hash-digest-length",
	"hash-algorithm-unknown", "length-integer", "type-media-type-syntax", "pri-range", "path-leading-slash",
	"path-no-traversal", "change-values", "w3cdtf", "utc-recommended", "ln-attr-required",
	"ln-href-absolute-uri", "dlib-loc-required", "dlib-limit-50000",
	"sitemap-priority", "text-between-elements",
}

// permittedFamilies are the families of rules that only allow something.
var permittedFamilies = []string{
	"schema-validation", "completed-optional", "until-optional", "root-ln-optional-repeatable",
	"archives-link-may", "entry-ln-optional-repeatable", "entry-metadata-optional", "lastmod-optional",
	"lastmod-optional-except-change-docs", "changefreq-optional", "resourcedump-entry-time-and-hash-may",
	"resourcedump-contents-link-optional", "resourcedump-index-entry-at-optional",
	"resourcedump-manifest-metadata-may", "changelist-entry-metadata-may",
	"changelist-index-entry-lastmod-optional", "changedump-entry-from-until-may",
	"changedump-contents-link-optional", "changedump-manifest-metadata-may",
	"attr-change-datetime-resource-or-representation", "ln-attrs-optional", "pri-optional", "datetime-optional",
	"completed-until-optional-where-at-from", "ln-duplicate-may", "ln-alternate-may", "ln-canonical-may",
	"ln-patch-may", "ln-metadata-own-entry", "ln-memento-may", "ln-memento-modified", "memento-lastmod-may",
	"ln-timemap-attrs", "ln-collection-may", "ln-via-may", "dlib-metadata-may",
	"ore-sitemap-may", "ore-html-multiple-rems", "ore-stylesheet-may",
	"dlib-sitemap-xsd-not-extensible", "robots-sitemap-directive-may", "robots-one-directive-per-set-may",
}

// alsoNoted are the families that the Decoder checks in part.
var alsoNoted = map[string]bool{"ext-attr-prefix": true, "table3": true}

// plainChecks names the methods that check files other than ResourceSync documents.
var plainChecks = map[string]string{
	"html-link-rel-resourcesync": "Checker.HTML",
	"html-link-in-head":          "Checker.HTML",
	"http-link-rel-resourcesync": "Checker.LinkHeader",
}

// documentChecks are the checks of the root and of a document as a whole.
func documentChecks() map[string]func(*run, *Rule) steps {
	return map[string]func(*run, *Rule) steps{
		"quirk": quirk,
		// Sitemaps for search engines.
		"sitemap-rs-elements":      sitemapElements,
		"sitemap-foreign-elements": sitemapForeign,
		// Roots.
		"root-md-required":                 rootMetadata,
		"root-capability-required":         rootCapability,
		"archives-capability-values":       archiveCapability,
		"capability-value":                 capabilityValue,
		"at-required":                      rootTimeRequired,
		"from-required":                    rootTimeRequired,
		"root-time-scope":                  rootTimeScope,
		"root-time-attrs-undefined":        rootTimeUndefined,
		"manifest-root-urlset":             noSuchIndex,
		"capabilitylist-index-discouraged": noSuchIndex,
		// Links of the root.
		"up-required":                            upRequired,
		"up-single":                              upSingle,
		"index-link-only-on-urlset":              indexOnIndex,
		"description-describedby-recommended":    rootDescribedBy,
		"capabilitylist-describedby-recommended": rootDescribedBy,
		// The proposal of 2013.
		"dlib-namespace":            dlibNamespace,
		"dlib-root-md-capability":   dlibCapability,
		"dlib-root-md-modified":     dlibModified,
		"dlib-manifest-path-unique": pathUnique,
		"dlib-top-link":             upRequired,
	}
}

// entryChecks are the checks of entries and of their order.
func entryChecks() map[string]func(*run, *Rule) steps {
	return map[string]func(*run, *Rule) steps{
		// Entries.
		"entry-md-required":                         entryMetadata,
		"entry-attribute-recommended":               entryAttribute,
		"type-recommended":                          typeRecommended,
		"path-required":                             pathRequired,
		"change-required":                           changeRequired,
		"minimal-content":                           covered,
		"lastmod-required":                          lastmodRequired,
		"lastmod-omit":                              lastmodOmit,
		"capabilitylist-entry-capability-required":  entryCapability,
		"capabilitylist-entry-not-a-capability":     notACapability,
		"entry-per-thing":                           oneEntryPerCapability,
		"description-entry-describedby-recommended": entryDescribedBy,
		"audit-needs-metadata":                      auditable,
		// Attributes (1.1 §7, Table 3).
		"ext-attr-prefix":              datetimeIn10,
		"table3":                       table3,
		"type-registered":              typeRegistered,
		"path-scope":                   pathScope,
		"manifest-path-unique":         pathUnique,
		"change-scope":                 changeScope,
		"datetime-scope":               changeScope,
		"datetime-every-entry-helps":   datetimeEverywhere,
		"resourcedump-zip-recommended": packageType,
		"resourcedump-zip-specified":   packageType,
		"changedump-zip-specified":     packageType,
		"same-format":                  samePackageType,
		// Times and their order.
		"datetime-within-interval":            datetimeWithin,
		"entry-time-scope":                    entryTimeScope,
		"completed-needs-at":                  needsBegin,
		"until-needs-from":                    needsBegin,
		"completed-not-before-at":             endBeforeBegin,
		"until-not-before-from":               endBeforeBegin,
		"entry-at-within-root-snapshot":       entryWithinRoot,
		"entry-interval-within-root-interval": entryWithinRoot,
		"forward-order":                       forwardOrder,
		"change-uri-datetime-unique":          changeUnique,
		// Sitemaps for search engines.
		"sitemap-scope": sitemapScope,
		// Links (1.1 §14).
		"ln-rel-registered-or-uri":           relation,
		"ln-duplicate-omit-md-attrs":         duplicateAttributes,
		"ln-patch-type-required":             patchType,
		"ln-patch-scope":                     patchScope,
		"ln-patch-path-required-in-manifest": patchPath,
		"ln-memento-single":                  singleLink,
		"ln-memento-corresponds-to-lastmod":  mementoOfLastmod,
		"ln-timegate-no-other-attrs":         timegateAttributes,
		"ln-via-keep-only-existing":          singleLink,
	}
}

// begin collects the steps of the rules that apply to a document of this kind.
func (r *run) begin() {
	for i := range book().rules {
		rule := &book().rules[i]
		c := checks[rule.Family]
		if c.run == nil || rule.Checkable != "static" || !rule.concerns(r.readKind) || !r.wants(rule) {
			continue
		}
		s := c.run(r, rule)
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

// end runs the checks that need the whole document.
func (r *run) end() {
	for _, f := range r.atEnd {
		f()
	}
	r.decideLater()
}

// undecided holds findings of edition 1.0 in a document that may follow either edition.
// They are reported if the document turns out to follow both.
type undecided struct {
	findings []Finding
	dropped  int
	entries  int
	is11     bool // something in it exists only in 1.1
}

// mostUndecided bounds the number of findings that are held until the end of a
// document.
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
	if !e.Datetime.IsZero() || e.LastMod.IsZero() || e.was("datetime-w3cdtf", "lastmod-w3cdtf") {
		u.is11 = true
	}
}

// undecidedWants reports whether a rule of 1.0 is checked in case the document also
// follows 1.0.
func (r *run) undecidedWants(rule *Rule) bool {
	return r.auto && r.profile == Profile11 && rule.In(Profile10) && ofChanges(r.readKind)
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

// ofChanges reports whether the entries of a document of that kind are changes.
func ofChanges(kind string) bool { return kind == "changelist" || kind == "changedump-manifest" }

func ofManifest(kind string) bool {
	return kind == "resourcedump-manifest" || kind == "changedump-manifest"
}
