package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"instep/destination"
	"instep/harvest"
	"instep/mirror"
	"instep/resourcesync"
)

const exportHelp = `Export writes what the mirror in DIR knows to standard output, one row for each resource
and set: the sets in the order in which they were first followed, the resources of each in
an order that depends on their URIs alone.

csv is as in RFC 4180, with a header. So that no spreadsheet takes a value for a formula, a
text that begins with = + - @, a tab or a line end gets an apostrophe before it; one that
begins with an apostrophe gets another. json is one record a line, as in "instep help schema",
and exact.

Links to other resources, the content coding, changefreq, priority and what else the Source
says of a resource are fields of its record (links, encoding, attributes and so on), and in
csv one JSON text, in the column remainder.`

func (a *app) exportCommand() *cobra.Command {
	var state, format string
	var sets []string
	cmd := &cobra.Command{
		Use:     "export DIR",
		Short:   "what a mirror knows, as CSV or JSON",
		Long:    exportHelp,
		Example: `  instep export ./mirror --format csv`,
		Args:    exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.export(cmd.Context(), args[0], state, format, sets)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&format, "format", "csv", "`csv|json`")
	fs.StringArrayVar(&sets, "set", nil, "only the set of this Capability List `URI` (repeatable; default: all)")
	stateFlag(cmd, &state)
	return cmd
}

func (a *app) export(ctx context.Context, dir, state, format string, sets []string) (err error) {
	switch format {
	case "json":
		a.out.json = true
	case "csv":
	default:
		return usagef("--format %q: expected csv or json", format)
	}
	m, err := a.openPast(ctx, dir, state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if sets, err = chosenSets(ctx, m, sets); err != nil {
		return err
	}
	if a.out.json {
		return a.exportJSON(ctx, m, sets)
	}
	return a.exportCSV(ctx, m, sets)
}

func (a *app) exportJSON(ctx context.Context, m *mirror.Mirror, sets []string) error {
	var n int64
	for _, set := range sets {
		for h, err := range m.Members(ctx, set) {
			if err != nil {
				return err
			}
			n++
			r := resourceRecord{
				Set: set, URI: h.URI, Path: h.Path, MediaType: h.Type, Changed: stamp(h.Changed), Reason: h.Due,
				LastMod: lastMod(&h), Verified: &h.Verified,
			}
			if h.Stored {
				r.Bytes, r.Hash = optional(h.Length.Int64()), h.Digests.String()
			}
			if r.Remainder, err = remainder(h.Remainder); err != nil {
				return fmt.Errorf("%s: %w", h.URI, err)
			}
			a.out.record(&r)
		}
	}
	a.out.end(summary{Status: "clean", Resources: num(n)}, "")
	return nil
}

// remainder returns the further attributes in the Source's entry, for a record; nil if
// there are none.
func remainder(kept harvest.Remainder) (*resourcesync.Remainder, error) {
	if kept.IsZero() {
		return nil, nil
	}
	said, err := kept.Parse()
	return &said, err
}

func lastMod(h *destination.Held) string {
	if h.LastMod.IsZero() {
		return ""
	}
	return h.LastMod.String()
}

var exportColumns = []string{"set", "uri", "path", "length", "hash", "type", "lastmod", "changed", "verified", "due", "remainder"}

func (a *app) exportCSV(ctx context.Context, m *mirror.Mirror, sets []string) error {
	w := csv.NewWriter(a.stdout)
	w.UseCRLF = true
	if err := w.Write(exportColumns); err != nil {
		return err
	}
	for _, set := range sets {
		for h, err := range m.Members(ctx, set) {
			if err != nil {
				return err
			}
			length, hash := "", ""
			if h.Stored {
				length, hash = strconv.FormatInt(h.Length.Int64(), 10), h.Digests.String()
			}
			said, err := h.Remainder.Text()
			if err != nil {
				return err
			}
			err = w.Write([]string{
				inert(set), inert(h.URI), inert(h.Path), length, hash, inert(h.Type), inert(lastMod(&h)), stamp(h.Changed),
				strconv.FormatBool(h.Verified), inert(h.Due), inert(said),
			})
			if err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

// inert prefixes an apostrophe to a text that a spreadsheet would take for a formula, and
// to one that begins with an apostrophe, so that the original can be restored.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n'", rune(s[0])) {
		return "'" + s
	}
	return s
}
