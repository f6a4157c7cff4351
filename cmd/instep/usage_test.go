package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachFlag calls f with every flag of every command.
func eachFlag(f func(*cobra.Command, *pflag.Flag)) {
	a := &app{stdout: io.Discard, stderr: io.Discard, now: time.Now}
	a.out = &output{stdout: io.Discard, stderr: io.Discard}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) { f(cmd, flag) })
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(a.rootCommand())
}

// TestFlagsWithFixedValuesCompleteThem: where the help of a flag names its values, they
// are completed.
func TestFlagsWithFixedValuesCompleteThem(t *testing.T) {
	eachFlag(func(cmd *cobra.Command, flag *pflag.Flag) {
		kind, _ := pflag.UnquoteUsage(flag)
		if !strings.Contains(kind, "|") {
			return
		}
		complete, ok := cmd.GetFlagCompletionFunc(flag.Name)
		if !ok {
			t.Errorf("%s --%s completes nothing", cmd.CommandPath(), flag.Name)
			return
		}
		values, _ := complete(cmd, nil, "")
		for _, want := range strings.Split(kind, "|") {
			if !slices.Contains(values, want) {
				t.Errorf("%s --%s completes %q, which lacks %q", cmd.CommandPath(), flag.Name, values, want)
			}
		}
	})
}

// TestGroupsNameFlagsThatThereAre, each in one group.
func TestGroupsNameFlagsThatThereAre(t *testing.T) {
	known, grouped := map[string]bool{}, map[string]string{}
	eachFlag(func(_ *cobra.Command, flag *pflag.Flag) { known[flag.Name] = true })
	for _, g := range flagGroups {
		for _, name := range g.names {
			if !known[name] {
				t.Errorf("%s: no command has --%s", g.title, name)
			}
			if other := grouped[name]; other != "" {
				t.Errorf("--%s is in %s and in %s", name, other, g.title)
			}
			grouped[name] = g.title
		}
	}
}
