package resourcesync

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// event is what an XML parser reports a document: a start tag, an end tag or text.
// Comments and processing instructions are left out.
type event struct {
	kind     byte // '<', '>' or 't'
	name     xml.Name
	attrs    []Attr
	declares []xml.Attr // by encoding/xml only
	text     string
}

// stdEvents reads a document with encoding/xml.
func stdEvents(doc []byte) (events []event, err error) {
	dec := xml.NewDecoder(strings.NewReader(string(doc)))
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			e := event{kind: '<', name: xml.Name{Space: normalised(tok.Name.Space), Local: tok.Name.Local}}
			for _, a := range tok.Attr {
				if a.Name.Space == "xmlns" || a.Name == (xml.Name{Local: "xmlns"}) {
					e.declares = append(e.declares, a)
				} else {
					e.attrs = append(e.attrs, Attr{normalised(a.Name.Space), a.Name.Local, normalised(a.Value)})
				}
			}
			events = append(events, e)
		case xml.EndElement:
			events = append(events, event{kind: '>'})
		case xml.CharData:
			events = append(events, event{kind: 't', text: string(tok)})
		}
	}
}

// normalised does what encoding/xml leaves out (XML 1.0 §3.3.3).
func normalised(value string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, value)
}

// expat is a process that reads documents with expat.
type expat struct {
	in  io.Writer
	out *bufio.Reader
}

// startExpat runs testdata/expat.py until the test has ended.
func startExpat(t *testing.T) *expat {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: python3, whose expat reads our documents, is not installed")
	}
	cmd := exec.Command(python, "testdata/expat.py")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("expat.py: %v\n%s", err, complaints.String())
		}
	})
	return &expat{in: in, out: bufio.NewReader(out)}
}

// errRefused is the error for a document that expat does not accept.
var errRefused = errors.New("refused by expat")

// events reads a document. The error is errRefused if expat does not accept it;
// any other is one of the process.
func (x *expat) events(doc []byte) ([]event, error) {
	if _, err := x.in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(doc))), doc...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(x.out, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(x.out, body); err != nil {
		return nil, err
	}
	var answer struct {
		Error  string              `json:"error"`
		Events [][]json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("%w: %s", errRefused, answer.Error)
	}
	events := make([]event, len(answer.Events))
	for i, parts := range answer.Events {
		if err := events[i].unmarshal(parts); err != nil {
			return nil, fmt.Errorf("event %s: %w", parts, err)
		}
	}
	return events, nil
}

func (e *event) unmarshal(parts []json.RawMessage) error {
	var kind string
	if err := json.Unmarshal(parts[0], &kind); err != nil {
		return err
	}
	e.kind = kind[0]
	switch e.kind {
	case 't':
		return json.Unmarshal(parts[1], &e.text)
	case '<':
		var name, flat []string
		if err := errors.Join(json.Unmarshal(parts[1], &name), json.Unmarshal(parts[2], &flat)); err != nil {
			return err
		}
		e.name = xml.Name{Space: name[0], Local: name[1]}
		for ; len(flat) > 0; flat = flat[3:] {
			e.attrs = append(e.attrs, Attr{flat[0], flat[1], flat[2]})
		}
	}
	return nil
}

// plainXML writes events as a document that leaves nothing to a parser: no
// entities, sections or comments, each prefix declared where it is used.
func plainXML(events []event) string {
	var b strings.Builder
	var open []string
	for _, e := range events {
		switch e.kind {
		case '<':
			name := e.name.Local
			declaration := ""
			switch e.name.Space {
			case "":
			case nsXML:
				name = "xml:" + name
			default:
				name, declaration = "e:"+name, ` xmlns:e="`+escapeAttr.Replace(e.name.Space)+`"`
			}
			open = append(open, name)
			b.WriteString("<" + name + declaration)
			plainAttrs(&b, e.attrs)
			b.WriteByte('>')
		case '>':
			b.WriteString("</" + open[len(open)-1] + ">")
			open = open[:len(open)-1]
		default:
			b.WriteString(escapeText.Replace(e.text))
		}
	}
	return b.String()
}

func plainAttrs(b *strings.Builder, attrs []Attr) {
	for i, a := range attrs {
		name := a.Name
		switch a.Space {
		case "":
		case nsXML:
			name = "xml:" + name
		default:
			prefix := "a" + strconv.Itoa(i)
			name = prefix + ":" + name
			b.WriteString(" xmlns:" + prefix + `="` + escapeAttr.Replace(a.Space) + `"`)
		}
		b.WriteString(" " + name + `="` + escapeAttr.Replace(a.Value) + `"`)
	}
}
