package repo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every command that the documentation shows is run by a test. A testscript in
// cmd/instep/testdata/script claims a command with a comment above the line that
// runs it:
//
//	# README: instep sync https://example.org/ mirror
//	exec instep sync $URL mirror
//
// The claim repeats the command as the documentation has it; the line below has
// to run the same subcommand with at least the same flags.
const (
	claimMark = "# README: "
	scripts   = "cmd/instep/testdata/script/"
)

// shownCommands lists the instep commands in the sh blocks of a Markdown text.
func shownCommands(text string) []string {
	var out []string
	in := false
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if info, ok := strings.CutPrefix(line, "```"); ok {
			in = !in && slices.Contains([]string{"sh", "bash", "shell", "console"}, info)
			continue
		}
		if !in {
			continue
		}
		if c := normal(strings.TrimPrefix(line, "$ ")); strings.HasPrefix(c, "instep ") {
			out = append(out, c)
		}
	}
	return out
}

// normal is a command without its comment, its spacing and how it is started.
func normal(command string) string {
	command, _, _ = strings.Cut(command, " # ")
	words := strings.Fields(command)
	if len(words) > 0 && words[len(words)-1] == "&" {
		words = words[:len(words)-1]
	}
	command = strings.Join(words, " ")
	for _, start := range []string{"go run ./cmd/instep ", "bin/instep ", "./instep "} {
		if rest, ok := strings.CutPrefix(command, start); ok {
			return "instep " + rest
		}
	}
	return command
}

// claimed lists the commands that a script claims to run and runs.
func claimed(name, text string) (commands, problems []string) {
	var open []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if c, ok := strings.CutPrefix(line, claimMark); ok {
			open = append(open, normal(c))
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, c := range open {
			if runs(line, c) {
				commands = append(commands, c)
			} else {
				problems = append(problems, fmt.Sprintf("%s: %q claims to run %q", name, line, c))
			}
		}
		open = nil
	}
	for _, c := range open {
		problems = append(problems, fmt.Sprintf("%s: nothing runs %q", name, c))
	}
	return commands, problems
}

// runs reports whether a line of a script runs the subcommand of a command with
// all of its flags.
func runs(line, command string) bool {
	words, want := strings.Fields(line), strings.Fields(command)
	at := slices.Index(words, "instep")
	if at < 0 || at+1 >= len(words) || words[at+1] != want[1] {
		return false
	}
	return !slices.ContainsFunc(want[2:], func(w string) bool {
		return strings.HasPrefix(w, "-") && !slices.Contains(flags(words), flagName(w))
	})
}

func flags(words []string) []string {
	var out []string
	for _, w := range words {
		if strings.HasPrefix(w, "-") {
			out = append(out, flagName(w))
		}
	}
	return out
}

func flagName(word string) string {
	name, _, _ := strings.Cut(word, "=")
	return name
}

func uncovered(files tree) []string {
	var problems, have []string
	for name, text := range files {
		if strings.HasPrefix(name, scripts) {
			c, p := claimed(name, string(text))
			have, problems = append(have, c...), append(problems, p...)
		}
	}
	for name, text := range files {
		if name != "README.md" && !(strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md")) {
			continue
		}
		for _, c := range shownCommands(string(text)) {
			if !slices.Contains(have, c) {
				problems = append(problems, fmt.Sprintf("%s shows %q, which no script in %s runs (claim it with %q)", name, c, scripts, claimMark+c))
			}
		}
	}
	return problems
}

func TestReadmeCommands(t *testing.T) { report(t, uncovered(repository(t))) }

func TestReadmeCommandsAreMatched(t *testing.T) {
	readme := "```sh\n$ instep sync https://example.org/ mirror --json   # again\ngo run ./cmd/instep demo --once\n" +
		"instep serve site \\\n  --addr :8080 &\nmake test\n```\ninstep publish nothing\n```go\ninstep audit x\n```\n"
	want := []string{"instep sync https://example.org/ mirror --json", "instep demo --once", "instep serve site --addr :8080"}
	if d := cmp.Diff(shownCommands(readme), want); d != "" {
		t.Errorf("commands (-got +want):\n%s", d)
	}
	script := func(lines ...string) tree {
		return tree{"README.md": []byte(readme), scripts + "a.txtar": []byte(strings.Join(lines, "\n"))}
	}
	good := []string{
		"# README: instep sync https://example.org/ mirror --json", "exec instep sync $URL mirror --json=true",
		"# README: go run ./cmd/instep demo --once", "# with the embedded default", "exec instep demo --once",
		"# README: instep serve site --addr :8080", "exec instep serve site --addr 127.0.0.1:0 &site&",
	}
	if got := uncovered(script(good...)); got != nil {
		t.Errorf("all is covered, but: %v", got)
	}
	for what, lines := range map[string][]string{
		"no script":        nil,
		"a claim only":     append(slices.Clone(good[:6]), ""),
		"another command":  append(slices.Clone(good[:6]), "exec instep sync site --addr x"),
		"a flag less":      append(slices.Clone(good[:6]), "exec instep serve site"),
		"another argument": append(slices.Clone(good[2:]), "# README: instep sync https://example.org/ other --json", good[1]),
	} {
		if got := uncovered(script(lines...)); got == nil {
			t.Errorf("%s: nothing was reported", what)
		}
	}
}
