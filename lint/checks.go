package lint

import "fmt"

// steps are what one rule does with a document. A nil step does nothing.
type steps struct {
	entry func(*entry) // for each entry that could be read
	end   func()       // at the end, when the header is complete
}

// check is how the rules of one family are checked.
type check struct {
	noted bool                    // the Decoder decides, and its notes are the findings
	run   func(*run, *Rule) steps // what the Decoder does not see; nil if there is nothing
	by    string                  // the method that checks what is no ResourceSync document
}

// permitted is the check of what the standard allows: no document can break it.
func permitted(*run, *Rule) steps { return steps{} }

// covered is the check of a rule that sums up others: those report.
func covered(*run, *Rule) steps { return steps{} }

// checks has the check of each family that one document can show.
var checks map[string]check

func init() {
	noted, own := check{noted: true}, func(f func(*run, *Rule) steps) check { return check{run: f} }
	allowed := own(permitted)
	checks = map[string]check{
		"quirk":         own(quirk),
		"reader-limits": noted,

		// Documents (1.1 §4, §6, §7).
		"xml-well-formed":                     noted,
		"root-element-urlset-or-sitemapindex": noted,
		"namespace-sitemap":                   noted,
		"namespace-rs-terms":                  noted,
		"entry-element-matches-root":          noted,
		"limit-50000-items":                   noted,
		"limit-50mb":                          noted,
		"schema-validation":                   allowed,

		// Roots.
		"root-md-required":                 own(rootMetadata),
		"root-md-single":                   noted,
		"root-capability-required":         own(rootCapability),
		"root-capability-case":             noted,
		"root-capability-unknown":          noted,
		"archives-capability-values":       own(archiveCapability),
		"capability-value":                 own(capabilityValue),
		"at-required":                      own(rootTimeRequired),
		"from-required":                    own(rootTimeRequired),
		"completed-optional":               allowed,
		"until-optional":                   allowed,
		"root-time-scope":                  own(rootTimeScope),
		"root-time-attrs-undefined":        own(rootTimeUndefined),
		"manifest-root-urlset":             own(noSuchIndex),
		"capabilitylist-index-discouraged": own(noSuchIndex),

		// Links of the root.
		"up-required":                            own(upRequired),
		"up-single":                              own(upSingle),
		"index-link-only-on-urlset":              own(indexOnIndex),
		"description-describedby-recommended":    own(rootDescribedBy),
		"capabilitylist-describedby-recommended": own(rootDescribedBy),
		"root-ln-optional-repeatable":            allowed,
		"archives-link-may":                      allowed,

		// Entries.
		"entry-loc-required":                        noted,
		"entry-loc-single":                          noted,
		"loc-absolute-uri":                          noted,
		"entry-no-attributes":                       noted,
		"entry-md-not-repeatable":                   noted,
		"entry-ln-optional-repeatable":              allowed,
		"entry-metadata-optional":                   allowed,
		"entry-md-required":                         own(entryMetadata),
		"entry-attribute-recommended":               own(entryAttribute),
		"type-recommended":                          own(typeRecommended),
		"path-required":                             own(pathRequired),
		"change-required":                           own(changeRequired),
		"minimal-content":                           own(covered),
		"lastmod-required":                          own(lastmodRequired),
		"lastmod-omit":                              own(lastmodOmit),
		"lastmod-optional":                          allowed,
		"lastmod-optional-except-change-docs":       allowed,
		"changefreq-optional":                       allowed,
		"changefreq-values":                         noted,
		"capabilitylist-entry-capability-required":  own(entryCapability),
		"capabilitylist-entry-capability-defined":   noted,
		"capabilitylist-entry-not-a-capability":     own(notACapability),
		"entry-capability-case":                     noted,
		"entry-per-thing":                           own(oneEntryPerCapability),
		"description-entry-describedby-recommended": own(entryDescribedBy),
		"audit-needs-metadata":                      own(auditable),
		"resourcedump-entry-time-and-hash-may":      allowed,
		"resourcedump-contents-link-optional":       allowed,
		"resourcedump-index-entry-at-optional":      allowed,
		"resourcedump-manifest-metadata-may":        allowed,
		"changelist-entry-metadata-may":             allowed,
		"changelist-index-entry-lastmod-optional":   allowed,
		"changedump-entry-from-until-may":           allowed,
		"changedump-contents-link-optional":         allowed,
		"changedump-manifest-metadata-may":          allowed,

		// Attributes (1.1 §7, Table 3).
		"rs-attr-no-prefix":  noted,
		"ext-attr-namespace": noted,
		"ext-attr-prefix":    {noted: true, run: datetimeIn10},
		"table3":             {noted: true, run: table3},
		"attr-change-datetime-resource-or-representation": allowed,
		"ln-attrs-optional":            allowed,
		"hash-algorithm-token":         noted,
		"hash-hex-digest":              noted,
		"hash-digest-length":           noted,
		"hash-algorithm-unknown":       noted,
		"length-integer":               noted,
		"type-media-type-syntax":       noted,
		"type-registered":              own(typeRegistered),
		"pri-range":                    noted,
		"pri-optional":                 allowed,
		"path-scope":                   own(pathScope),
		"path-leading-slash":           noted,
		"path-no-traversal":            noted,
		"manifest-path-unique":         own(pathUnique),
		"change-values":                noted,
		"change-scope":                 own(changeScope),
		"datetime-scope":               own(changeScope),
		"datetime-optional":            allowed,
		"datetime-every-entry-helps":   own(datetimeEverywhere),
		"resourcedump-zip-recommended": own(packageType),
		"resourcedump-zip-specified":   own(packageType),
		"changedump-zip-specified":     own(packageType),
		"same-format":                  own(samePackageType),

		// Times and their order.
		"w3cdtf":                                 noted,
		"utc-recommended":                        noted,
		"datetime-within-interval":               own(datetimeWithin),
		"entry-time-scope":                       own(entryTimeScope),
		"completed-until-optional-where-at-from": allowed,
		"completed-needs-at":                     own(needsBegin),
		"until-needs-from":                       own(needsBegin),
		"completed-not-before-at":                own(endBeforeBegin),
		"until-not-before-from":                  own(endBeforeBegin),
		"entry-at-within-root-snapshot":          own(entryWithinRoot),
		"entry-interval-within-root-interval":    own(entryWithinRoot),
		"forward-order":                          own(forwardOrder),
		"change-uri-datetime-unique":             own(changeUnique),

		// Links (1.1 §14).
		"ln-attr-required":                   noted,
		"ln-rel-registered-or-uri":           own(relation),
		"ln-href-absolute-uri":               noted,
		"ln-duplicate-may":                   allowed,
		"ln-duplicate-omit-md-attrs":         own(duplicateAttributes),
		"ln-alternate-may":                   allowed,
		"ln-canonical-may":                   allowed,
		"ln-patch-may":                       allowed,
		"ln-patch-type-required":             own(patchType),
		"ln-patch-scope":                     own(patchScope),
		"ln-patch-path-required-in-manifest": own(patchPath),
		"ln-metadata-own-entry":              allowed,
		"ln-memento-may":                     allowed,
		"ln-memento-single":                  own(singleLink),
		"ln-memento-modified":                allowed,
		"ln-memento-corresponds-to-lastmod":  own(mementoOfLastmod),
		"memento-lastmod-may":                allowed,
		"ln-timegate-no-other-attrs":         own(timegateAttributes),
		"ln-timemap-attrs":                   allowed,
		"ln-collection-may":                  allowed,
		"ln-via-may":                         allowed,
		"ln-via-keep-only-existing":          own(singleLink),

		// The proposal of 2013.
		"dlib-namespace":                  own(dlibNamespace),
		"dlib-root-md-capability":         own(dlibCapability),
		"dlib-root-md-modified":           own(dlibModified),
		"dlib-loc-required":               noted,
		"dlib-manifest-path-unique":       own(pathUnique),
		"dlib-limit-50000":                noted,
		"dlib-metadata-may":               allowed,
		"dlib-top-link":                   own(upRequired),
		"dlib-sitemap-xsd-not-extensible": allowed,

		// What is no ResourceSync document: see plain.go.
		"html-link-rel-resourcesync": {by: "Checker.HTML"},
		"html-link-in-head":          {by: "Checker.HTML"},
		"http-link-rel-resourcesync": {by: "Checker.LinkHeader"},
	}
}

// begin gathers the steps of the rules that concern a document of this kind.
func (r *run) begin() {
	for i := range book().rules {
		rule := &book().rules[i]
		c := checks[rule.Family]
		if c.run == nil || rule.Checkable != "static" || !rule.concerns(r.readKind) || !r.wants(rule) {
			continue
		}
		if s := c.run(r, rule); s.entry != nil || s.end != nil {
			r.steps = append(r.steps, s)
		}
	}
}

func (r *run) checkEntry() {
	for i := range r.steps {
		if f := r.steps[i].entry; f != nil {
			f(r.entry)
		}
	}
	r.later.count(r.entry)
}

// end checks what only the whole document shows.
func (r *run) end() {
	for i := range r.steps {
		if f := r.steps[i].end; f != nil {
			f()
		}
	}
	r.decideLater()
}

// undecided are the findings of edition 1.0 of a document that may be of either
// edition. They are told if it turns out to be of both.
type undecided struct {
	findings []Finding
	dropped  int
	entries  int
	is11     bool // something in it is only of 1.1
}

// mostUndecided bounds what waits for the end of a document.
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

// undecidedWants reports whether a rule of 1.0 is checked in case the document is of
// 1.0 as well.
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
