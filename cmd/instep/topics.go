package main

import (
	"github.com/spf13/cobra"

	"instep/docs"
)

// topics are the guides in docs by the names under which "instep help" shows them. A name
// is that of no command.
var topics = []struct{ name, file, short string }{
	{"webmaster", "webmaster.md", "how to publish with nginx, Apache, Caddy, S3, cron and systemd"},
	{"mirror", "mirror.md", "how to keep a mirror for years: credentials, guards, earlier states, reports"},
	{"promise", "promise.md", "what exit code 0 promises, and what the others mean"},
	{"configuration", "configuration.md", "the keys of the configuration file, and globs"},
	{"inputs", "inputs.md", "publish from a Sitemap, URLs, OAI-PMH, SQL or an application"},
	{"adopt", "adopt.md", "take over a publication without its state"},
	{"on-demand", "on-demand.md", "packages of what a client asks for"},
	{"linting", "lint.md", "what lint checks, and its output for programs"},
	{"simulating", "simulate.md", "a Source that misbehaves as asked"},
	{"dialects", "convert.md", "what convert understands"},
	{"resource-maps", "ore.md", "what ore finds"},
	{"library", "library.md", "the Go packages"},
	{"schema", "schema.json", "the records of --json, as a JSON Schema"},
}

// topicCommands are the additional help topics: "instep help NAME" writes the guide.
func (a *app) topicCommands() (commands []*cobra.Command) {
	for _, topic := range topics {
		cmd := &cobra.Command{Use: topic.name, Short: topic.short}
		cmd.SetHelpFunc(func(*cobra.Command, []string) {
			text, err := docs.Files.ReadFile(topic.file)
			if err != nil {
				panic("a guide is not embedded: " + err.Error())
			}
			_, _ = a.stdout.Write(text)
		})
		commands = append(commands, cmd)
	}
	return commands
}
