package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"instep/internal/publish"
	"instep/internal/scan"
	"instep/source"
)

// leftOut describes the files that a scan leaves out, by reason. The documents of the publication
// are not counted.
var leftOut = map[scan.Reason]string{
	scan.Dotfile:    "with a name that begins with a dot",
	scan.Symlink:    "that are symbolic links to nothing, to a directory, or out of the published directory",
	scan.Special:    "that are neither files nor directories, such as sockets",
	scan.Pattern:    "not chosen by --include and --exclude",
	scan.Litter:     "left behind by systems and editors, such as Thumbs.db (--all-files publishes them)",
	scan.LinkFile:   "that contain the links of other files (--link-files)",
	scan.Assumed:    "assumed to be unchanged, which stay published as they are",
	scan.Due:        "of which the Source has newer bytes than the mirror (instep sync fetches them, or --also due lists them as they are)",
	scan.Unverified: "whose bytes are unproved, because the Source gives neither digest nor length (--also unverified lists them)",
	scan.Held:       "kept in an earlier state than the Source has (--also held lists them)",
	scan.Loop:       "that the Source itself copied from this publication",
}

// ownAddress returns the flag --addr for serve if the base URL has a loopback address other than
// the default of serve.
func ownAddress(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.Host == defaultAddr || !net.ParseIP(u.Hostname()).IsLoopback() {
		return ""
	}
	return " --addr " + u.Host
}

func (a *app) reportPublish(rep *publish.Report, site *publish.Site, f *publishFlags, took time.Duration) {
	for i := range rep.Sets {
		a.reportSet(&rep.Sets[i], site, len(rep.Sets) > 1)
	}
	if !site.DryRun {
		a.out.say("Source Description  %s", rep.Description)
		a.out.say("Page for people     %s", source.AboutURI(site.BaseURL))
		if rep.Unchanged == 0 && rep.Created > 0 {
			served := strings.TrimSpace(site.Dir + " " + site.Out)
			if f.config != "" {
				served = "-c " + f.config
			}
			a.out.say("Serve the directory with any web server at this URL, or try: instep serve %s", served+ownAddress(site.BaseURL))
			a.out.say("So that others find the Source, add to your site the lines that publish --show robots and publish --show html print")
		}
	}
	status := publishStatus(&rep.SetReport, site.DryRun)
	if rep.Failed > 0 {
		a.code = exitPartial
		a.out.warn(warningRecord{Message: fmt.Sprintf("%d could not be read (see above); what was published from these files stays published", rep.Failed)})
	}
	a.out.end(summary{
		Status: status, Same: num(rep.Unchanged), Created: num(rep.Created), Updated: num(rep.Updated), Deleted: num(rep.Deleted),
		Failed: num(rep.Failed), Resources: num(rep.Resources), Bytes: num(rep.Hashed), Excluded: excluded(rep.Sets),
		Documents: rep.Documents, Retired: rep.Retired, Packaged: positive(rep.Packaged), Kept: positive(rep.Kept), Patches: publishedPatches(&rep.SetReport), Seconds: seconds(took), ExitCode: a.code,
	}, fmt.Sprintf("%s   %s, %s read", publishLine(status, &rep.SetReport), took.Round(10*time.Millisecond), humanSize(rep.Hashed)))
}

// reportOthers prints the results of the sets that were published although another set failed.
func (a *app) reportOthers(rep *publish.Report, site *publish.Site) {
	for i := range rep.Sets {
		if rep.Sets[i].Published {
			a.reportSet(&rep.Sets[i], site, true)
		}
	}
}

func publishStatus(rep *publish.SetReport, dryRun bool) string {
	switch {
	case dryRun:
		return "plan"
	case rep.Failed > 0:
		return "partial"
	}
	return "published"
}

func publishLine(status string, rep *publish.SetReport) string {
	return fmt.Sprintf("Status: %s (same=%d, created=%d, updated=%d, deleted=%d, failed=%d)",
		words[status], rep.Unchanged, rep.Created, rep.Updated, rep.Deleted, rep.Failed)
}

func publishedPatches(rep *publish.SetReport) *patchCounts {
	if rep.Patches == 0 {
		return nil
	}
	return &patchCounts{Made: num(rep.Patches), Saved: num(rep.Patched - rep.PatchBytes)}
}

func excluded(sets []publish.SetReport) map[string]int64 {
	all := map[string]int64{}
	for _, s := range sets {
		for reason, n := range s.Excluded {
			all[reason] += n
		}
	}
	return all
}

// reportSet prints the results of a set. If there are several sets, it also writes a record.
func (a *app) reportSet(rep *publish.SetReport, site *publish.Site, several bool) {
	for _, n := range rep.Notes {
		a.out.warn(warningRecord{Set: rep.CapabilityList, Message: n})
	}
	if several {
		a.out.say("")
		a.out.say("%s", setTitle(rep, site))
		a.out.record(setRecord(rep, site.DryRun))
	}
	a.tellLeftOut(rep)
	a.out.say("%s, %s, at %s", counted(rep.Resources, "resource"), humanSize(rep.Bytes), site.BaseURL)
	if several {
		a.out.say("same=%d, created=%d, updated=%d, deleted=%d, failed=%d", rep.Unchanged, rep.Created, rep.Updated, rep.Deleted, rep.Failed)
	}
	if rep.Patches > 0 {
		a.out.say("%s (%s) instead of whole resources (%s)", counted(rep.Patches, "patch"), humanSize(rep.PatchBytes), humanSize(rep.Patched))
	}
	if site.DryRun {
		a.previewSet(rep)
		return
	}
	for _, o := range []struct{ what, uri string }{
		{"Capability List", rep.CapabilityList}, {"Resource List", rep.ResourceList}, {"Change List", rep.ChangeList},
		{"Fixed Change List", rep.FixedChangeList},
		{"Resource Dump", rep.ResourceDump}, {"Change Dump", rep.ChangeDump},
	} {
		if o.uri != "" {
			a.out.say("%-18s  %s", o.what, o.uri)
		}
	}
}

func setTitle(rep *publish.SetReport, site *publish.Site) string {
	name := "The default set"
	if rep.Set != "" {
		name = "Set " + rep.Set
	}
	for _, s := range site.Sets {
		if s.Name == rep.Set && s.Policy.About.Title != "" {
			name += ": " + s.Policy.About.Title
		}
	}
	return name
}

func setRecord(rep *publish.SetReport, dryRun bool) *statusRecord {
	return &statusRecord{
		Message: words[publishStatus(rep, dryRun)], Set: rep.CapabilityList, Published: positive(rep.Publication),
		Same: num(rep.Unchanged), Created: num(rep.Created), Updated: num(rep.Updated), Deleted: num(rep.Deleted), Failed: num(rep.Failed),
		Resources: num(rep.Resources), Bytes: num(rep.Hashed),
	}
}

func (a *app) previewSet(rep *publish.SetReport) {
	for _, key := range rep.Documents {
		a.out.line("write   %s", printable(key))
	}
	for _, key := range rep.Retired {
		a.out.line("retire  %s", printable(key))
	}
	if rep.Packaged > 0 {
		a.out.say("packages would take %s on disk", humanSize(rep.Packaged))
	}
	if rep.Kept > 0 {
		a.out.say("the state would keep %s for the next Change Dump", humanSize(rep.Kept))
	}
	if len(rep.Documents) == 0 {
		a.out.say("nothing would be written")
	}
}

func (a *app) tellLeftOut(rep *publish.SetReport) {
	for reason, n := range sortedByName(rep.Excluded) {
		if what, ok := leftOut[scan.Reason(reason)]; ok {
			if begin, hint, ok := strings.Cut(what, " ("); !a.out.verbose && ok {
				what = begin + " (-v names them; " + hint
			} else if !a.out.verbose {
				what += " (-v names them)"
			}
			a.out.say("left out: %d %s", n, what)
		}
	}
}

// explainGuard prints which files were left out of each refused set, because the guard may have
// counted them as deleted. It adds a hint to err if some of them are resources of a mirror that
// are due, unverified or held.
func (a *app) explainGuard(err error, rep *publish.Report) error {
	if !errors.As(err, new(*scan.GuardError)) {
		return err
	}
	for i := range rep.Sets {
		if rep.Sets[i].Published {
			continue
		}
		a.tellLeftOut(&rep.Sets[i])
		for _, doubt := range []scan.Reason{scan.Due, scan.Unverified, scan.Held} {
			if rep.Sets[i].Excluded[string(doubt)] > 0 {
				err = &hintedError{err, "sync the mirror first. To publish the resources that were left out: --also. To publish the deletions: --max-delete 100%"}
			}
		}
	}
	return err
}
