package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"instep/harvest"
	"instep/mirror"
	"instep/resourcesync"
)

const exportHelp = `Export writes the records of the mirror in DIR to standard output, one for each resource and
set. The sets are in the order in which they were first mirrored. The order of the resources of
a set depends only on their URIs.

The format csv follows RFC 4180 and has a header. Spreadsheets would take some values for
formulas. Therefore a text that begins with = + - @, a tab or a line end gets an apostrophe
before it, and so does a text that begins with an apostrophe. The format json has one record per
line and contains every value unchanged ("instep help schema").

A record also has what else the Source says about a resource: links to other resources, content
coding, changefreq, priority and more. In json these are separate fields (links, encoding,
attributes and so on); in csv they are one JSON text in the column remainder.`

func (a *app) exportCommand() *cobra.Command {
	var state, format string
	var sets []string
	cmd := &cobra.Command{
		Use:     "export DIR",
		Short:   "write what a mirror knows of its resources, as CSV or JSON",
		Long:    exportHelp,
		Example: `  instep export ./mirror --format csv`,
		Args:    exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.export(cmd.Context(), args[0], state, format, sets)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&format, "format", "csv", "format of the output: `csv|json`")
	fs.StringArrayVar(&sets, "set", nil, "export only the set of this Capability List `URI` (repeatable; default: all)")
	stateFlag(cmd, &state)
	return cmd
}

func (a *app) export(ctx context.Context, dir, state, format string, sets []string) (err error) {
	if err := a.chooseFormat("export", format); err != nil {
		return err
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
				LastMod: h.LastMod.String(), Verified: &h.Verified,
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

// remainder returns the parts of the Source's entry that have no field of their own in an
// exported record; nil if there are none.
func remainder(kept harvest.Remainder) (*resourcesync.Remainder, error) {
	if kept.IsZero() {
		return nil, nil
	}
	said, err := kept.Parse()
	return &said, err
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
				exportCell(set), exportCell(h.URI), exportCell(h.Path), length, hash, exportCell(h.Type), exportCell(h.LastMod.String()), stamp(h.Changed),
				strconv.FormatBool(h.Verified), exportCell(h.Due), exportCell(said),
			})
			if err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

// exportCell puts an apostrophe before a text that a spreadsheet would read as a formula. It does
// so too if the text begins with an apostrophe, so that a reader can restore the original.
func exportCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n'", rune(s[0])) {
		return "'" + s
	}
	return s
}
