package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"instep/discover"
	"instep/fetch"
	"instep/internal/flock"
	"instep/internal/scan"
	"instep/mirror"
)

// sentence is an error in plain words, with a hint.
type sentence struct{ text, hint string }

// sentences translate errors into plain words. The first function that recognises an error
// translates it.
var sentences = []func(error) (sentence, bool){
	sourceSentence, passwordSentence, fetchSentence, databaseSentence, listenSentence, diskSentence, lockSentence, nameSentence,
}

func tell(err error) sentence {
	for _, s := range sentences {
		if told, ok := s(err); ok {
			return told
		}
	}
	return sentence{text: err.Error()}
}

// tell returns the sentence to print for an error. It hides passwords before it shortens the text,
// since a shortened password would not be recognised.
func (o *output) tell(err error) sentence {
	told := tell(err)
	return sentence{brief(o.redactMessage(told.text)), o.redactMessage(told.hint)}
}

func sourceSentence(err error) (sentence, bool) {
	de, ok := errors.AsType[*discover.Error](err)
	if !ok || len(de.Tried) == 0 {
		return sentence{}, false
	}
	if told, ok := requestSentence(de); ok {
		return told, true
	}
	if a, foreign := foreignAttempt(de); foreign != nil {
		return sentence{fmt.Sprintf("%s leads to a Source on another origin, %s", a.URL, foreign.URI), "give that URL, or follow the link with --allow-origin " + foreign.Origin}, true
	}
	if broken, _ := de.Broken(); broken != "" {
		return sentence{de.Summary(), fmt.Sprintf("instep lint %s explains what is wrong with this document", shellLine(broken))}, true
	}
	if _, parsed := fetch.Parse(de.Given); parsed != nil {
		return passwordSentence(parsed)
	}
	return sentence{de.Summary(), "if the site has a Source Description or Capability List elsewhere, give the URL of that document"}, true
}

// requestSentence recognises that the search for a Source failed because of a failed request.
func requestSentence(de *discover.Error) (sentence, bool) {
	if err := failedRequest(de); err != nil {
		return fetchSentence(err)
	}
	return sentence{}, false
}

// failedRequest returns the error of the request because of which no Source was found; nil if
// there is none.
func failedRequest(de *discover.Error) error {
	culprits := []discover.Attempt{de.Tried[len(de.Tried)-1]}
	if i := slices.IndexFunc(de.Tried, func(a discover.Attempt) bool { return a.Way == discover.WayDocument }); i >= 0 {
		culprits = append(culprits, de.Tried[i])
	}
	for _, a := range culprits {
		fe, ok := errors.AsType[*fetch.Error](a.Err)
		if !ok || fe.Kind == fetch.NotFound || a.Way == discover.WayRobots && fe.Kind == fetch.Denied {
			continue
		}
		if _, ok := fetchSentence(a.Err); ok {
			return a.Err
		}
	}
	return nil
}

func foreignAttempt(de *discover.Error) (a discover.Attempt, foreign *discover.ForeignError) {
	for _, a := range de.Tried {
		if foreign, ok := errors.AsType[*discover.ForeignError](a.Err); ok {
			return a, foreign
		}
	}
	return a, nil
}

// passwordSentence recognises a URL with a password, which other users can see in the list of
// processes.
func passwordSentence(err error) (sentence, bool) {
	if err == nil || !strings.Contains(err.Error(), "the URI has a user name or password") {
		return sentence{}, false
	}
	return sentence{"the URL contains a user name or password, which everybody on this machine can read", "leave name and password out of the URL, and give --netrc FILE or --bearer-file FILE"}, true
}

func fetchSentence(err error) (sentence, bool) {
	fe, ok := errors.AsType[*fetch.Error](err)
	if !ok {
		return sentence{}, false
	}
	host := fe.URL
	if u, err := url.Parse(fe.URL); err == nil && u.Host != "" {
		host = u.Host
	}
	if told, ok := certificateSentence(host, fe); ok {
		return told, true
	}
	forConfiguration := strings.Contains(fe.Hint, "configuration")
	switch {
	case fe.AllowPrivate != "":
		hint := "to allow the address: --allow-private " + fe.AllowPrivate
		if forConfiguration {
			hint = fmt.Sprintf("to allow the address, add below from: in the configuration:  allow_private: [%q]", fe.AllowPrivate)
		}
		return sentence{fmt.Sprintf("%s is at a private address, which is not requested unless you allow it", host), hint}, true
	case fe.AllowOrigin != "" && !forConfiguration:
		return sentence{fmt.Sprintf("%s leads to another origin, %s", fe.URL, fe.AllowOrigin), "to follow the link: --allow-origin " + fe.AllowOrigin}, true
	case fe.Kind == fetch.Denied && fe.Status == 401 && fe.Authorized:
		return sentence{fmt.Sprintf("%s refuses the login that was sent (401)", fe.URL), "is the login for " + host + " right in your netrc file, --bearer-file, --header-file, --cert or $" + envBearer + "?"}, true
	case fe.Kind == fetch.Denied && (fe.Status == 401 || fe.Status == 407):
		return sentence{fmt.Sprintf("%s asks for a login (%d)", fe.URL, fe.Status), "give the login: --netrc FILE, --bearer-file FILE, --header-file FILE or --cert FILE"}, true
	case fe.Kind == fetch.Denied && fe.Status == 403:
		return sentence{fmt.Sprintf("%s: the server refuses this request (403)", fe.URL), "if the server requires a login: --netrc FILE or --bearer-file FILE; if it blocks programs, ask its operator"}, true
	case fe.Kind == fetch.Temporary && fe.Op == "read": // the connection failed during the transfer of the body
		return sentence{fmt.Sprintf("%s: %s", fe.URL, fe.Msg), "give the same command again " + whenAgain(fe.RetryAfter)}, true
	case fe.Kind == fetch.Temporary && fe.Status == 200:
		return sentence{fmt.Sprintf("%s: %s", fe.URL, fe.Msg), "the site may block programs; ask its operator to allow this program"}, true
	case fe.Kind == fetch.Temporary && fe.Status != 0:
		return sentence{fmt.Sprintf("%s: the server is busy or broken (%d)", fe.URL, fe.Status), "give the same command again " + whenAgain(fe.RetryAfter)}, true
	case fe.Status == 0 && fe.Err != nil:
		return unansweredSentence(host, fe)
	}
	return sentence{}, false
}

func unansweredSentence(host string, fe *fetch.Error) (sentence, bool) {
	dns, unknown := errors.AsType[*net.DNSError](fe.Err)
	record, _ := errors.AsType[tls.RecordHeaderError](fe.Err)
	failed, network := errors.AsType[net.Error](fe.Err)
	reason := fe.Msg
	if network && !failed.Timeout() && !errors.Is(fe.Err, syscall.ECONNRESET) {
		reason = lastCause(fe.Err)
	}
	switch {
	case unknown && dns.IsNotFound:
		return sentence{"there is no host named " + host, "is the name of the host spelled right, and this machine online?"}, true
	case unknown:
		return sentence{fmt.Sprintf("the address of %s cannot be looked up: %s", host, dns.Err), "is this machine online? If so, give the same command again later"}, true
	case string(record.RecordHeader[:]) == "HTTP/":
		return sentence{host + " answers http at this port, not https", "begin the URL with http://" + host}, true
	case fe.Kind != fetch.Temporary:
		return sentence{}, false
	}
	return sentence{fmt.Sprintf("%s does not answer: %s", host, reason), "is the server running, and are scheme, host and port right? If so, give the same command again later"}, true
}

// whenAgain says when to send a request again. Without a time from the host it says "later".
func whenAgain(wait time.Duration) string {
	if wait <= 0 {
		return "later"
	}
	return "in " + formatDuration(max(wait.Round(time.Second), time.Second))
}

func certificateSentence(host string, fe *fetch.Error) (sentence, bool) {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(fe.Err, &unknown):
		reason := "is from an authority that this machine does not know"
		if c := unknown.Cert; c != nil && (c.CheckSignatureFrom(c) == nil || c.Issuer.String() == c.Subject.String()) {
			reason = "is self-signed"
		}
		return sentence{"the certificate of " + host + " " + reason, "if you trust the certificate, save it as a PEM file and give --ca FILE"}, true
	case errors.As(fe.Err, &name):
		return sentence{fmt.Sprintf("the certificate of %s is for another host (%s)", host, strings.Join(name.Certificate.DNSNames[:min(len(name.Certificate.DNSNames), 3)], ", ")), "is the host spelled right? Use the host name in the certificate"}, true
	case errors.As(fe.Err, &invalid) && invalid.Reason == x509.Expired:
		return sentence{fmt.Sprintf("the certificate of %s is not valid now (until %s)", host, invalid.Cert.NotAfter.UTC().Format(time.DateOnly)), "if the clock of this machine is right, the operator of the host must renew the certificate"}, true
	case errors.As(fe.Err, &invalid):
		return sentence{"the certificate of " + host + " cannot be used: " + invalid.Error(), "if you trust the authority of the certificate: --ca FILE"}, true
	}
	return sentence{}, false
}

func lastCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

func databaseSentence(err error) (sentence, bool) {
	dial, ok := errors.AsType[*net.OpError](err)
	if !ok || !errors.Is(err, scan.ErrConnect) {
		return sentence{}, false
	}
	place := ""
	if dial.Addr != nil {
		place = " at " + dial.Addr.String()
	}
	return sentence{
		fmt.Sprintf("the database%s does not answer: %s", place, lastCause(dial)),
		"is the database running, and are host and port right? instep config check FILE shows them",
	}, true
}

func listenSentence(err error) (sentence, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "listen" || !strings.HasPrefix(op.Net, "tcp") {
		return sentence{}, false
	}
	place, hint := "", "give HOST:PORT of this machine, such as --addr 127.0.0.1:8080"
	if op.Addr != nil {
		place = " at " + op.Addr.String()
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		hint = "another program listens on this address; try another port with --addr"
	}
	return sentence{fmt.Sprintf("the server cannot listen%s: %s", place, lastCause(op)), hint}, true
}

func diskSentence(err error) (sentence, bool) {
	var pe *fs.PathError
	path := ""
	if errors.As(err, &pe) {
		path = pe.Path
	}
	switch {
	case errors.Is(err, mirror.ErrWrongStore) && errors.Is(err, fs.ErrNotExist) && !errors.Is(err, mirror.ErrLostCatalog):
		return sentence{"there is no mirror at " + path, "is the path spelled right, and the disk mounted? If the state of the mirror is elsewhere: --state DIR. instep sync SOURCE DIR makes a mirror"}, true
	case errors.Is(err, mirror.ErrFull):
		return sentence{}, false // not translated, because the text of this error is clear
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return sentence{strings.TrimSuffix("no space is left on the disk of "+path, " of "), "make room, and give the same command again to continue"}, true
	case path != "" && pe.Err.Error() == syscall.ENOTDIR.Error(): // compared as text, because os.OpenRoot returns another error with the text of ENOTDIR
		return sentence{fileIn(path) + " is a file, expected a directory", "is the path spelled right?"}, true
	case path == "" || errors.Is(err, scan.ErrRoot):
		return sentence{}, false
	case errors.Is(err, syscall.EROFS):
		return sentence{fmt.Sprintf("%s is on a read-only disk", path), "choose a directory on another disk; publish has --out DIR and --state DIR for that"}, true
	case errors.Is(err, fs.ErrPermission) && isWrite(pe.Op):
		return sentence{"you have no permission to write " + path, "change its permissions, or choose another directory"}, true
	case errors.Is(err, fs.ErrPermission):
		return sentence{"you have no permission to read " + path, "change its permissions, or run the command as the owner of the file"}, true
	}
	return sentence{}, false
}

// fileIn returns the file that makes a path invalid because it is not a directory: the path itself
// or one of its parents. It returns the path if there is no such file.
func fileIn(path string) string {
	for p := path; ; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			return p
		}
		if p == filepath.Dir(p) {
			return path
		}
	}
}

// isWrite reports whether an operation, named as in fs.PathError, modifies a file or directory.
func isWrite(op string) bool {
	return slices.ContainsFunc([]string{"mkdir", "create", "rename", "link", "unlink", "remove", "write", "chmod", "chtimes"}, func(w string) bool { return strings.Contains(op, w) })
}

func lockSentence(err error) (sentence, bool) {
	le, ok := errors.AsType[*flock.LockedError](err)
	if !ok {
		return sentence{}, false
	}
	run := "another run"
	if le.PID != 0 {
		run = fmt.Sprintf("another run (process %d on %s)", le.PID, le.Host)
	}
	return sentence{run + " is using " + le.Path, "wait until that run has ended, and give the same command again"}, true
}

func nameSentence(err error) (sentence, bool) {
	pe, ok := err.(*fs.PathError) //nolint:errorlint // wrapped errors have sentences of their own
	if !ok || !errors.Is(pe, fs.ErrNotExist) {
		return sentence{}, false
	}
	hint := "is the name of the file spelled right?"
	if first, _, _ := strings.Cut(pe.Path, "/"); strings.ContainsAny(first, ".:") {
		hint += " If a URL is meant, it begins with https:// or http://"
	}
	return sentence{"there is no file or directory " + pe.Path, hint}, true
}

const (
	maxMessage = 240 // the largest length of a message in characters; URLs and paths do not count
	maxPlace   = 80  // the largest length of a URL or path in characters
)

// places is a pattern that matches URLs, and paths with at least two slashes.
var places = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+|(?:[^\s"'<>():;,]*/){2,}[^\s"'<>():;,]*`)

// brief returns a message as one line of limited length, without repetitions. Long URLs and paths
// are cut in the middle.
func brief(text string) string {
	text = withoutRepeats(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), "; "))
	var b strings.Builder
	room, start := maxMessage, 0
	write := func(s string) bool {
		if n := utf8.RuneCountInString(s); n <= room {
			b.WriteString(s)
			room -= n
			return true
		}
		b.WriteString(string([]rune(s)[:room]) + "…")
		return false
	}
	for _, p := range places.FindAllStringIndex(text, -1) {
		if !write(text[start:p[0]]) {
			return b.String()
		}
		b.WriteString(shortenName(text[p[0]:p[1]], maxPlace))
		start = p[1]
	}
	write(text[start:])
	return b.String()
}

// Repeated parts of a message are removed if they have at least minRepeated bytes.
const minRepeated = 12

// withoutRepeats removes each part of a message between colons that is the same as an earlier
// part.
func withoutRepeats(text string) string {
	var said, out []string
	for _, part := range strings.Split(text, ": ") {
		whole := strings.TrimSpace(part)
		if len(whole) >= minRepeated && slices.Contains(said, whole) {
			continue
		}
		said, out = append(said, whole), append(out, part)
	}
	return strings.Join(out, ": ")
}
