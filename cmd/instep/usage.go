package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"instep/docs"
)

type flagGroup struct {
	title string
	names []string
}

// flagGroups has the headings in the help, each with its flags. Flags in no group come first,
// with the heading "Flags".
var flagGroups = []flagGroup{
	{"What is chosen", []string{"set", "include", "exclude", "type", "only-collection", "only-profile", "with-metadata", "where", "assume-unchanged", "all-files", "link-files", "accept", "at", "since", "deleted-since", "runs", "run", "last", "cause", "limit"}},
	{"Deletions and earlier states", []string{"max-delete", "keep-deleted", "keep-versions", "keep-log", "versions", "memento", "accept-rollback", "accept-gap", "max-age", "keep", "release"}},
	{"How the work is done", []string{"prefer", "duplicates", "no-patches", "explain", "baseline-every", "adopt", "layout", "move-to", "rebase", "strict", "remember", "quick", "repair", "watch", "every", "rescan"}},
	{"Documents", []string{"hash", "profile", "max-entries", "change-list-max", "rotate-every", "rebase-every", "keep-changes", "timegates", "fixed-changes", "patches", "dump", "package-size", "archive", "show", "zip"}},
	{"What people read", []string{"title", "description", "contact", "licence"}},
	{"Limits", []string{"workers", "rate", "bwlimit", "max-transfer", "max-time", "max-document", "retries", "timeout"}},
	{"Network", []string{"allow-origin", "allow-private", "proxy", "ca", "user-agent", "addr"}},
	{"Logging in", []string{"netrc", "bearer-file", "header-file", "cert", "key"}},
	{"Files and directories", []string{"config", "out", "state", "to", "dir", "report", "socket", "truth", "access-log", "log-format"}},
}

// ungrouped lists flags that have another meaning in this command than elsewhere, so the help of
// the command does not show them in their group.
var ungrouped = []string{"diff --to", "lint --explain"}

// maxColumns is the width to which the text of a help page is wrapped, in columns.
const maxColumns = 88

func (a *app) help(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	writeText(w, cmp.Or(cmd.Long, cmd.Short), min(columnsOf(w), maxColumns))
	fmt.Fprintln(w)
	usageTo(w, cmd)
}

// writeText wraps paragraphs at a number of columns, but not lines that begin with a space.
func writeText(w io.Writer, text string, columns int) {
	column := 0
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == ' ' {
			fmt.Fprint(w, strings.Repeat("\n", min(column, 1)), line, "\n")
			column = 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+n > columns:
				fmt.Fprintln(w)
				column = 0
			default:
				fmt.Fprint(w, " ")
				column++
			}
			fmt.Fprint(w, word)
			column += n
		}
	}
	fmt.Fprint(w, strings.Repeat("\n", min(column, 1)))
}

func columnsOf(w io.Writer) int {
	if f, ok := terminal(w); ok {
		return min(max(widthOf(f), 60), 120)
	}
	return 80
}

func usageTo(w io.Writer, cmd *cobra.Command) {
	columns := columnsOf(w)
	fmt.Fprintf(w, "Usage:\n")
	if cmd.Runnable() && cmd.HasParent() {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-*s  %s\n", cmd.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	writeFlags(w, cmd, columns)
	if cmd.HasAvailableInheritedFlags() {
		writeGroup(w, "Output", cmd.InheritedFlags(), columns)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n%s COMMAND --help shows the flags of a command,\ninstep help topics the pages of the documentation.\n", cmd.CommandPath())
	}
}

func writeFlags(w io.Writer, cmd *cobra.Command, columns int) {
	groups := make([]*pflag.FlagSet, len(flagGroups)+1)
	for i := range groups {
		groups[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		i := slices.IndexFunc(flagGroups, func(g flagGroup) bool { return slices.Contains(g.names, f.Name) })
		if slices.Contains(ungrouped, cmd.Name()+" --"+f.Name) {
			i = -1
		}
		groups[i+1].AddFlag(f)
	})
	writeGroup(w, "Flags", groups[0], columns)
	for i, g := range flagGroups {
		writeGroup(w, g.title, groups[i+1], columns)
	}
}

func writeGroup(w io.Writer, title string, flags *pflag.FlagSet, columns int) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\n%s:\n%s", title, flags.FlagUsagesWrapped(columns))
	}
}

var topics = []struct{ name, about string }{
	{"adopt", "taking over what is published or mirrored already"},
	{"configuration", "the configuration file, globs, times and sizes"},
	{"convert", "converting documents of other dialects to 1.1"},
	{"inputs", "publishing what a Sitemap, a list of URLs, another Source or a database lists"},
	{"lint", "checking a Source"},
	{"library", "the packages for Go programs"},
	{"mirror", "keeping a mirror for years: credentials, existing directories, earlier states, reports"},
	{"on-demand", "packages that are made on request"},
	{"links", "linking resources to mirrors, metadata and other resources"},
	{"ore", "finding and mirroring Resource Maps of OAI-ORE"},
	{"promise", "what exit code 0 promises about a mirror, and what the other exit codes mean"},
	{"quirks", "deviations of existing Sources from the standard that are tolerated"},
	{"rules", "the rules that lint checks"},
	{"simulate", "a simulated Source with quirks and faults"},
	{"webmaster", "serving and publishing with your own web server"},
	{"schema", "the JSON records of --json, as a JSON Schema"},
}

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "show the help of a command, or a page of the documentation",
		Long: `Help shows the help of a command, or a page of the documentation:

` + topicList() + `
Pages are Markdown; pipe a long one into a pager: instep help configuration | less`,
		ValidArgsFunction: a.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Root().Help()
			}
			if len(args) == 1 && args[0] == "topics" {
				fmt.Fprint(a.stdout, topicList())
				return nil
			}
			if found, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 && found != cmd.Root() {
				return found.Help()
			}
			return a.showTopic(cmd.Root(), strings.Join(args, "-"))
		},
	}
}

func topicList() string {
	var b strings.Builder
	for _, t := range topics {
		fmt.Fprintf(&b, "  %-14s %s\n", t.name, t.about)
	}
	return b.String()
}

// commandsAndTopics returns a command that has the commands of root and the topics as subcommands,
// for didYouMean.
func commandsAndTopics(root *cobra.Command) *cobra.Command {
	all := &cobra.Command{SuggestionsMinimumDistance: root.SuggestionsMinimumDistance}
	for _, c := range root.Commands() {
		all.AddCommand(suggestion(c.Name(), !c.IsAvailableCommand()))
	}
	for _, t := range topics {
		all.AddCommand(suggestion(t.name, false))
	}
	return all
}

func (a *app) showTopic(root *cobra.Command, name string) error {
	file := name + ".md"
	if name == "schema" {
		file = "schema.json"
	}
	text, err := fs.ReadFile(docs.FS, file)
	if errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, "/.") {
		return usagef("there is no command and no topic %q%s (see instep help topics)", name, didYouMean(commandsAndTopics(root), name, ""))
	}
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(text)
	return err
}

func (a *app) completeTopics(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range cmd.Root().Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name()+"\t"+c.Short)
		}
	}
	for _, t := range topics {
		names = append(names, t.name+"\t"+t.about)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
