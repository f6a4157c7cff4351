package fetch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Netrc has a login and a password for each machine in a netrc file. Since the file
// names no schemes and ports, a Netrc is used only for origins that the user has named.
type Netrc struct {
	machines []machine
}

// machine is one entry of a netrc file. The default entry has no name.
type machine struct{ name, login, password string }

// maxNetrc is the largest netrc file in bytes.
const maxNetrc = 1 << 20

// ReadNetrc reads a netrc file with the tokens machine, login, password, account,
// default and macdef of ftp(1) and curl(1). A token may be in quotation marks, and # at the
// beginning of a token begins a comment. An error names the line and contains no secrets.
func ReadNetrc(r io.Reader) (*Netrc, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxNetrc+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxNetrc {
		return nil, fmt.Errorf("expected a netrc file of at most %d bytes, got more", maxNetrc)
	}
	p := netrcParser{in: string(b), line: 1}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return &p.out, nil
}

// Header returns the Authorization header field (Basic, RFC 7617) from the first entry
// for a host; nil if there is no entry. If fallback is set, the default entry also
// matches.
func (n *Netrc) Header(host string, fallback bool) http.Header {
	host = asciiHost(host)
	for _, m := range n.machines {
		if (m.name == "" && !fallback) || (m.name != "" && asciiHost(m.name) != host) {
			continue
		}
		if m.login == "" && m.password == "" {
			return nil
		}
		pair := base64.StdEncoding.EncodeToString([]byte(m.login + ":" + m.password))
		return http.Header{"Authorization": {"Basic " + pair}}
	}
	return nil
}

type netrcParser struct {
	in   string
	line int
	out  Netrc
}

func (p *netrcParser) parse() error {
	for {
		word, err := p.next()
		if err != nil || word == "" {
			return err
		}
		switch word {
		case "machine":
			name, err := p.value(`expected a name after "machine"`)
			if err != nil {
				return err
			}
			p.out.machines = append(p.out.machines, machine{name: name})
		case "default":
			p.out.machines = append(p.out.machines, machine{})
		case "macdef":
			p.skipMacro()
		case "login", "password", "account":
			value, err := p.value("expected a value after " + word)
			if err != nil {
				return err
			}
			if err := p.set(word, value); err != nil {
				return err
			}
		default:
			return errors.New("expected one of the words machine, default, login, password, account and macdef")
		}
	}
}

func (p *netrcParser) set(word, value string) error {
	if len(p.out.machines) == 0 {
		return fmt.Errorf(`expected "machine" or "default" before %q`, word)
	}
	m := &p.out.machines[len(p.out.machines)-1]
	switch word {
	case "login":
		if strings.Contains(value, ":") {
			return errors.New("the login has a colon, which Basic authentication cannot send")
		}
		m.login = value
	case "password":
		m.password = value
	}
	return nil
}

// value returns the next token, or an error with the given message at the end of the file.
func (p *netrcParser) value(message string) (string, error) {
	p.space()
	if p.in == "" {
		return "", errors.New(message)
	}
	return p.token()
}

// next returns the next token and skips comments. It returns "" at the end of the file.
func (p *netrcParser) next() (string, error) {
	for p.space(); strings.HasPrefix(p.in, "#"); p.space() {
		_, p.in, _ = strings.Cut(p.in, "\n")
		p.line++
	}
	return p.token()
}

const netrcSpace = " \t\r\n"

func (p *netrcParser) space() {
	rest := strings.TrimLeft(p.in, netrcSpace)
	p.line += strings.Count(p.in[:len(p.in)-len(rest)], "\n")
	p.in = rest
}

func (p *netrcParser) token() (string, error) {
	if strings.HasPrefix(p.in, `"`) {
		return p.quoted()
	}
	i := strings.IndexAny(p.in, netrcSpace)
	if i < 0 {
		i = len(p.in)
	}
	word := p.in[:i]
	p.in = p.in[i:]
	return word, nil
}

func (p *netrcParser) quoted() (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.in); i++ {
		switch c := p.in[i]; {
		case c == '"':
			p.in = p.in[i+1:]
			return b.String(), nil
		case c == '\n':
			return "", errors.New("expected a quotation mark before the end of the line")
		case c == '\\' && i+1 < len(p.in):
			i++
			b.WriteByte(p.in[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("expected a quotation mark before the end of the file")
}

// A macro ends with an empty line.
func (p *netrcParser) skipMacro() {
	for p.in != "" {
		var line string
		line, p.in, _ = strings.Cut(p.in, "\n")
		p.line++
		if strings.TrimSpace(line) == "" {
			return
		}
	}
}
