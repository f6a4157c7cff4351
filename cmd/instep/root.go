package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the build of a release.
var version = "0.1.0-dev"

// app holds the state that all commands share.
type app struct {
	args           []string // the command line
	secretive      []string // further arguments whose passwords are hidden
	stdout, stderr io.Writer
	now            func() time.Time
	out            *output
	code           int      // the exit code of a command that ends without an error
	given          []string // the flags on the command line, if the run of the command is recorded
}

const rootHelp = `Instep keeps copies of web collections up to date and proves that they are, by the ResourceSync
Framework (ANSI/NISO Z39.99). It publishes a folder, serves it, mirrors it, keeps the mirror in
step, and audits it.

    instep publish ./collection --base-url https://museum.example.org/
    instep sync https://museum.example.org/ ./mirror
    instep audit https://museum.example.org/ ./mirror

Try it without a network: instep demo --once

Exit codes:

    0  done, in sync, nothing to do     6  a guard withheld something
    1  failed                           8  stopped at --max-transfer
    2  usage or configuration          10  stopped at --max-time
    3  differences found               11  another run holds the lock
    4  finished partially             130  interrupted, state saved
    5  temporary: unreachable,        143  terminated, state saved
       429, 503, blocked

"instep help promise" says what exit code 0 promises of a mirror, and what the others mean.

Data goes to standard output, messages to standard error. With --json every line of standard
output is a JSON record; the last one is the summary (instep help schema).

Completion of commands, flags and values, for this shell and for all new ones:

    source <(instep completion bash)      or zsh, fish, powershell
    instep completion bash > /etc/bash_completion.d/instep`

func run(args []string, stdout, stderr io.Writer) int {
	a := &app{args: args, stdout: stdout, stderr: stderr, now: time.Now}
	a.out = &output{stdout: stdout, stderr: stderr}
	a.hideSecretsIn()
	a.out.colour.stdout, a.out.colour.stderr = hasColour(stdout), hasColour(stderr)
	defer a.out.flush()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)

	ctx, stop := interruptible(context.Background())
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return a.code
	}
	// Parsing stops at an invalid flag, so a --json after that flag is not yet known.
	a.out.json = a.out.json || slices.Contains(args, "--json")
	code, hint := explain(ctx, err)
	if _, ok := interrupted(ctx); ok && !keepsWork(cmd) {
		hint = ""
	}
	if len(args) > 0 && args[0] == "config" && hint == configHint {
		hint = "instep help configuration explains the keys of a file"
	}
	a.out.fail(rootCause(ctx, err), code, hint)
	return code
}

// keepsWork reports whether a command that was interrupted continues its work when the user gives
// it again.
func keepsWork(cmd *cobra.Command) bool {
	dryRun, _ := cmd.Flags().GetBool("dry-run") // false for a command without this flag
	switch cmd.Name() {
	case "publish", "record", "sync", "restore", "undo":
		return !dryRun
	}
	return cmd.Flags().Changed("repair")
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "instep",
		Short:         "keep copies of web resources in step with their Source",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.BoolVar(&a.out.json, "json", false, "write JSON records, one on each line")
	f.BoolVarP(&a.out.quiet, "quiet", "q", false, "write only warnings, errors and the last line")
	f.BoolVar(&a.out.silent, "silent", false, "write only warnings and errors, as is useful for cron")
	f.BoolVarP(&a.out.verbose, "verbose", "v", false, "name every resource, and show errors in full")
	root.Version = version
	root.SetVersionTemplate("instep {{.Version}}\n")
	root.SetHelpCommand(a.helpCommand())
	root.SetHelpFunc(a.help)
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		usageTo(cmd.OutOrStderr(), cmd)
		return nil
	})
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == root && len(a.args) > 0 && !strings.HasPrefix(a.args[0], "-") {
			return knownCommand(cmd, a.args[:1]) // only the name of the command is reported, because the flags of an unknown command are unknown too
		}
		return flagError(cmd, err)
	})
	root.AddCommand(
		a.publishCommand(), a.recordCommand(), a.serveCommand(), a.configCommand(), a.syncCommand(), a.auditCommand(),
		a.approveCommand(), a.historyCommand(), a.diffCommand(), a.restoreCommand(), a.undoCommand(), a.exportCommand(), a.errorsCommand(), a.reportCommand(),
		a.convertCommand(), a.lintCommand(), a.oreCommand(), a.demoCommand(), a.simulateCommand(), a.versionCommand(),
	)
	a.completeFlags(root)
	return root
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("there is no command %q%s (see instep --help)", args[0], didYouMean(cmd, args[0], ""))
}

// flagError translates an error of parsing the flags of a command into plain words. If a flag is
// unknown, the error suggests a similar name.
func flagError(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongValue(wrong)
	}
	text, like := err.Error(), ""
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if ok && unknown.GetSpecifiedShortnames() != "" { // the text of err is not used, because it repeats the value of the flag
		text = "unknown flag: -" + unknown.GetSpecifiedName()
	} else if ok {
		flags := &cobra.Command{SuggestionsMinimumDistance: cmd.Root().SuggestionsMinimumDistance}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flags.AddCommand(suggestion(f.Name, f.Hidden))
		})
		like = didYouMean(flags, unknown.GetSpecifiedName(), "--")
	}
	return usagef("%s%s (see %s --help)", text, like, cmd.CommandPath())
}

func suggestion(name string, hidden bool) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: hidden, Run: func(*cobra.Command, []string) {}}
}

// wrongValue returns the error that a flag cannot have a value. It replaces errors of strconv,
// which name functions of Go.
func wrongValue(e *pflag.InvalidValueError) error {
	if !errors.As(e, new(*strconv.NumError)) {
		return usagef("--%s: %v", e.GetFlag().Name, errors.Unwrap(e))
	}
	wanted := "a whole number"
	switch kind := e.GetFlag().Value.Type(); {
	case kind == "bool":
		wanted = "true or false"
	case errors.Is(e, strconv.ErrRange):
		wanted = "a smaller number"
	case kind == "float64":
		wanted = "a number"
	case kind == "uint64":
		wanted = "a whole number from 0"
	}
	return usagef("--%s %q: expected %s", e.GetFlag().Name, e.GetValue(), wanted)
}

// didYouMean returns a question that suggests the subcommand of cmd with a name similar to the given
// one, or "" if there is none.
func didYouMean(cmd *cobra.Command, name, prefix string) string {
	like := cmd.SuggestionsFor(name)
	if len(like) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", prefix+like[0])
}

func exactArgs(names ...string) cobra.PositionalArgs { return optionalArgs(len(names), names...) }

// optionalArgs accepts the named arguments, of which the first n are required.
func optionalArgs(n int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usagef("%s is missing: expected %s (see %s --help)", names[len(args)], strings.Join(names[:n], " "), cmd.CommandPath())
		case len(args) > len(names):
			return usagef("unexpected argument %q (see %s --help)", args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// signalError is the cause of the cancellation of a context by a signal.
type signalError struct{ sig os.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("stopped by a signal (%v)", e.sig) }

// interruptible cancels the context at the first SIGINT or SIGTERM, and ends the
// program at the second.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case sig := <-signals:
			cancel(&signalError{sig})
		case <-done:
			return
		}
		select {
		case sig := <-signals:
			os.Exit(signalCode(sig))
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

func signalCode(sig os.Signal) int {
	if sig == syscall.SIGTERM {
		return exitTerminated
	}
	return exitInterrupted
}

// rootCause returns err or, if a signal interrupted the run, the signal: then err is only a
// consequence of the signal.
func rootCause(ctx context.Context, err error) error {
	if _, ok := interrupted(ctx); ok {
		return context.Cause(ctx)
	}
	return err
}

func interrupted(ctx context.Context) (code int, ok bool) {
	var se *signalError
	if errors.As(context.Cause(ctx), &se) {
		return signalCode(se.sig), true
	}
	return 0, false
}
