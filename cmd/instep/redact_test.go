package main

import (
	"strings"
	"testing"
)

// TestNoMessageRepeatsAPassword gives passwords where no command expects one.
func TestNoMessageRepeatsAPassword(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, given := range []string{"me:secret@museum.example.org/x", "me:s@secret@museum.example.org:80", `me:"secret@museum.example.org`, "http://me:secret/secret@museum.example.org/", "https://secret@museum.example.org/", "http://me:%zsecret@museum.example.org/", "me:sec/secret@museum.example.org", "https:/me:secret@museum.example.org/", "//me:secret@[::1]/", "secret_16C7e42F292c@museum.example.org",
		"https://me:secret" + strings.Repeat("s", 300) + "@museum.example.org/", "me:secret" + strings.Repeat("s", 300) + "@museum.example.org/a/b"} {
		for _, args := range [][]string{
			{given}, {"help", given}, {"lint", given}, {"lint", "--format", "sarif", given}, {"diff", given, "--from", "2026-01-01"}, {"convert", given},
			{"publish", ".", "--base-url", given}, {"publish", ".", "--base-url=" + given}, {"publish", given}, {"serve", given}, {"serve", ".", "--addr", given},
			{"sync", given, "mirror"}, {"sync", "-v", given, "mirror"}, {"sync", "http://127.0.0.1:1/", "mirror", "--max-delete", given}, {"report", given}, {"ore", "find", given}, {"version", given},
		} {
			for _, mode := range []string{"-v", "--json"} {
				var stdout, stderr strings.Builder
				if code := run(append(args, mode), &stdout, &stderr); code == exitOK {
					t.Errorf("%q: exit code 0", args)
				}
				if out := stdout.String() + stderr.String(); strings.Contains(out, "secret") || out == "" {
					t.Errorf("%q: %s", args, out)
				}
			}
		}
	}
	for _, args := range [][]string{{"sync", "-x=secret"}, {"sync", "-xsecret"}, {"sync", "-nx=secret"}, {"sync", "--passwd=secret"}} {
		var stdout, stderr strings.Builder
		if code := run(args, &stdout, &stderr); code != exitUsage || strings.Contains(stderr.String(), "secret") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr.String())
		}
	}
}

func TestRedactor(t *testing.T) {
	type texts map[string]string
	for _, c := range []struct {
		arg      string
		data     texts
		messages texts
	}{
		{arg: "https://u:pä ss'@host/", data: texts{
			"https://u:pä ss'@host/x": "https://…@host/x", "https://u:p%C3%A4%20ss%27@host/": "https://…@host/", "https://u:pä%20ss'@host/": "https://…@host/",
			"<p>https://u:pä ss&#39;@host/": "<p>https://…@host/", `'u:pä ss'\''@host'`: "'…@host'", "pä ss'@host": "…@host", "https://u:pä sst@host/": "https://u:pä sst@host/",
		}},
		{arg: "u:p%C3%A4@host.org", data: texts{"https://u:pä@host.org": "https://…@host.org", "https://u:p%c3%a4@host.org": "https://…@host.org", "//u:p%25C3%25A4@host": "//u:p%25C3%25A4@host"}},
		{arg: "https://u:p%E4ss@host/?token=%F6l", data: texts{"https://u:p%E4ss@host/?token=%f6l": "https://…@host/?token=…", "https://u:p\xe4ss@host/?token=\xf6l": "https://…@host/?token=…"}},
		{arg: "--exclude=*?token=a", data: texts{"x?token=a": "x?token=…", "x?token=ab": "x?token=ab", "x?token=a&b=c": "x?token=…&b=c", `"http://h/x?token=a".`: `"http://h/x?token=…".`, "x?token=a.": "x?token=….", "x/token=a": "x/token=a"}},
		{arg: "https://h/?q=1&key=k%C3%A4+1;X-Amz-Credential=c/d", data: texts{"?key=kä+1": "?key=…", "&amp;key=kä&#43;1&amp;q=1": "&amp;key=…&amp;q=1", "?x-amz-credential=c/d": "?x-amz-credential=…"}},
		{arg: "https://h/?auth=1&jwt=2&passphrase=3&access_key=4&credentials=5&apikey=6", data: texts{
			"https://h/?auth=1&jwt=2&passphrase=3&access_key=4&credentials=5&apikey=6": "https://h/?auth=…&jwt=…&passphrase=…&access_key=…&credentials=…&apikey=…",
		}},
		{data: texts{"https://u:p@host/?token=secret1": "https://u:p@host/?token=secret1"}, messages: texts{
			`leads to "https://u:p@host/?token=secret1&page=2", which`: `leads to "https://…@host/?token=…&page=2", which`,
			"https://host/a@b?key=20261234&monkey=seventeen":           "https://host/a@b?key=20261234&monkey=seventeen",
			"https://host/?key=0123456789abcdef":                       "https://host/?key=…",
			`"https://host/100%/a@2x.png" is not a URI`:                `"https://host/100%/a@2x.png" is not a URI`,
		}},
	} {
		r := newRedactor([]string{c.arg})
		for text, want := range c.data {
			if got := r.redact(text, false); got != want {
				t.Errorf("%s: %s: got %s, want %s", c.arg, text, got, want)
			}
		}
		for text, want := range c.messages {
			if got := r.redact(text, true); got != want {
				t.Errorf("message %s: got %s, want %s", text, got, want)
			}
		}
	}
}

func TestLoginIn(t *testing.T) {
	for arg, want := range map[string]string{
		"me:pw@host":                       "me:pw",
		"--addr=me:pw@host:80":             "me:pw",
		"https://me:p%40w@host/a@b":        "me:p%40w",
		"https://token@host":               "token",
		"me:p/w@my_host/":                  "me:p/w",
		"https:/me:pw@host/":               "me:pw",
		"//me:pw@[::1]:80/":                "me:pw",
		"ghp_16C7e42F292c6912@host.org":    "ghp_16C7e42F292c6912",
		"https://host:80/a@b":              "",
		"collection-of-museum@2026":        "",
		"dc:type/@xml:lang":                "",
		"host:80/a@b":                      "",
		"https://host/a:b@c":               "",
		"https://host?mail=a@b":            "",
		"mailto:me@museum.example.org":     "",
		"photo@2x.png":                     "",
		"me@museum.example.org":            "",
		"rs:ln[@rel='up']/@href":           "",
		"2026-03-01T12:00:00Z":             "",
		"--contact=mailto:me@example.org":  "",
		"http://[::1]:80/a@b":              "",
		"--where=//rs:ln[@rel='up']/@href": "",
	} {
		if got := loginIn(arg); got != want {
			t.Errorf("%s: got %q, want %q", arg, got, want)
		}
	}
}
