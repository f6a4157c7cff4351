package main

import (
	"bytes"
	"io"
	"io/fs"
	"testing"
	"time"

	"instep/docs"
)

// TestTopics: every guide in the binary is a topic of "instep help", under a name that no
// command has.
func TestTopics(t *testing.T) {
	shown := map[string]bool{}
	for _, topic := range topics {
		want, err := fs.ReadFile(docs.Files, topic.file)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := run([]string{"help", topic.name}, &out, io.Discard); code != 0 || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("instep help %s: exit code %d, %d bytes; want %s", topic.name, code, out.Len(), topic.file)
		}
		shown[topic.file] = true
	}
	files, err := fs.Glob(docs.Files, "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !shown[file] {
			t.Errorf("%s is embedded and is no topic", file)
		}
	}
	a := &app{stdout: io.Discard, stderr: io.Discard, now: time.Now}
	a.out = &output{stdout: io.Discard, stderr: io.Discard}
	names := map[string]bool{}
	for _, cmd := range a.rootCommand().Commands() {
		if names[cmd.Name()] {
			t.Errorf("%q is a topic and a command", cmd.Name())
		}
		names[cmd.Name()] = true
	}
}
