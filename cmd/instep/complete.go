package main

import (
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"instep/destination"
	"instep/internal/runs"
	"instep/lint"
	"instep/mirror"
	"instep/transfer"
)

// choices lists the valid values of flags, by the name of the flag. Flags that also accept other
// values are not in this list.
var choices = map[string][]string{
	"prefer":     {string(destination.PreferList), string(destination.PreferDump)},
	"duplicates": {string(transfer.DuplicatesFirst), string(transfer.DuplicatesLast), string(transfer.DuplicatesNever)},
	"layout":     {string(mirror.Tree), string(mirror.Flat)},
	"log-format": {logCommon, logJSON},
	"show":       {"robots", "html"},
}

var formats = map[string][]string{"lint": {"text", "json", "sarif"}, "report": {"text", "json", "html"}, "export": {"csv", "json"}}

func choose(flag, value string) error { return chooseAmong(flag, value, choices[flag]) }

func chooseIfSet(flag, value string) error {
	if value == "" {
		return nil
	}
	return choose(flag, value)
}

func chooseAmong(flag, value string, among []string) error {
	if slices.Contains(among, value) {
		return nil
	}
	return usagef("--%s %q: expected %s", flag, value, english.WordSeries(among, "or"))
}

// chooseFormat checks the value of --format. The value json has the same effect as --json, and
// the values html and sarif exclude --json.
func (a *app) chooseFormat(command, value string) error {
	if err := chooseAmong("format", value, formats[command]); err != nil {
		return err
	}
	if a.out.json && (value == "html" || value == "sarif") {
		return usagef("--json and --format %s exclude each other", value)
	}
	a.out.json = a.out.json || value == "json"
	return nil
}

func completionValues(cmd *cobra.Command, flag string) []string {
	switch flag {
	case "hash":
		return []string{"sha-256", "sha-256,md5", "sha-384", "sha-512", "md5", "sha-1", "sha-224"}
	case "fail-on":
		return []string{"error", "warning", "info"}
	case "also":
		return strings.Split(doubts(), ", ")
	case "cause":
		return runs.CauseNames()
	case "dialect":
		return append([]string{"auto"}, dialectNames()...)
	case "keep-versions":
		return []string{"30d", "90d", "1y", "forever"}
	case "keep-log":
		return []string{"30d", "90d", "1y"}
	case "baseline-every":
		return []string{"7d", "30d", "never"}
	case "profile":
		if cmd.Name() == "lint" {
			return []string{string(lint.Profile11), string(lint.Profile10), string(lint.ProfileArchives), string(lint.ProfileMid2013), string(lint.ProfileDLib), string(lint.ProfileAuto)}
		}
		return []string{profile11, profile10, profileBoth}
	case "format":
		return formats[cmd.Name()]
	}
	return choices[flag]
}

func (a *app) completeFlags(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		a.completeFlags(cmd)
	}
	root.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if complete := a.completion(root, f); complete != nil {
			_ = root.RegisterFlagCompletionFunc(f.Name, complete) // no error is possible, because the flag has no completion function yet
		}
	})
}

type completionFunc = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completion returns nil for a boolean flag, because such a flag has no value to complete.
func (a *app) completion(cmd *cobra.Command, f *pflag.Flag) completionFunc {
	if values := completionValues(cmd, f.Name); len(values) > 0 {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	switch kind, _ := pflag.UnquoteUsage(f); {
	case cmd.Name() == "lint" && (f.Name == "ignore" || f.Name == "explain"):
		return completeRules
	case f.Name == "run":
		return completeRuns
	case kind == "DIR":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case kind == "FILE" || kind == "PATH":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	case f.Value.Type() != "bool":
		return cobra.NoFileCompletions
	}
	return nil
}

func completeRules(_ *cobra.Command, _ []string, begin string) (ids []string, _ cobra.ShellCompDirective) {
	for _, r := range lint.Rules() {
		if strings.HasPrefix(r.ID, begin) {
			ids = append(ids, r.ID)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func completeRuns(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		state, _ := cmd.Flags().GetString("state")
		all, _ := runs.List(mirror.StateDir(args[0], state)) // the error is ignored: without a mirror there are no runs to complete
		for i := range all {
			ids = append(ids, runText(all[i].ID)+"\t"+all[i].Command)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
