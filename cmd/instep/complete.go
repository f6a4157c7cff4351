package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"instep/internal/runs"
	"instep/lint"
	"instep/mirror"
)

// valuesOf returns the values for the completion of a flag.
func valuesOf(cmd *cobra.Command, flag string) []string {
	switch flag {
	case "prefer":
		return []string{"list", "dump"}
	case "duplicates":
		return []string{"first", "last", "never"}
	case "layout":
		return []string{string(mirror.Tree), string(mirror.Flat)}
	case "hash":
		return []string{"sha-256", "sha-256,md5", "sha-384", "sha-512", "md5", "sha-1", "sha-224"}
	case "log-format":
		return []string{"common", "json"}
	case "show":
		return []string{"robots", "html"}
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
		return formatsOf[cmd.Name()]
	}
	return nil
}

// formatsOf lists the values of --format for each command.
var formatsOf = map[string][]string{"lint": {"text", "json", "sarif"}, "report": {"text", "json", "html"}, "export": {"csv", "json"}}

// completeFlags registers completions for the flags of all commands.
func (a *app) completeFlags(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		a.completeFlags(cmd)
	}
	root.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if complete := a.completion(root, f); complete != nil {
			_ = root.RegisterFlagCompletionFunc(f.Name, complete) // fails only if a completion is already registered
		}
	})
}

type completionFunc = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completion returns the completion of a flag: fixed values, names of rules or runs,
// files or directories; nil if its values cannot be known.
func (a *app) completion(cmd *cobra.Command, f *pflag.Flag) completionFunc {
	if values := valuesOf(cmd, f.Name); len(values) > 0 {
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

// completeRuns completes the runs of the mirror that is already on the command line.
func completeRuns(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		state, _ := cmd.Flags().GetString("state")
		all, _ := runs.List(mirror.StateDir(args[0], state)) // no runs if it is not a mirror
		for i := range all {
			ids = append(ids, runText(all[i].ID)+"\t"+all[i].Command)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
