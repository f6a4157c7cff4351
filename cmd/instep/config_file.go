package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxConfigBytes bounds a configuration file.
const maxConfigBytes = 1 << 20

// configError reports an invalid configuration file.
type configError struct {
	file string
	line int // 0 if it concerns the whole file
	err  error
}

func (e *configError) Error() string {
	if e.line == 0 {
		return fmt.Sprintf("%s: %v", e.file, e.err)
	}
	return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err)
}

func (e *configError) Unwrap() error { return e.err }

// configFile is a parsed configuration file.
type configFile struct {
	name string
	siteConfig
	lines map[string]int // line number of each key, such as base_url or sets[0].name
}

// readConfigFile reads a configuration file. Paths in it are relative to the file.
func readConfigFile(name string) (*configFile, error) {
	r, err := os.Open(name)
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return nil, &configError{name, 0, pe.Err}
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxConfigBytes {
		return nil, &configError{name, 0, fmt.Errorf("is no configuration: expected at most %d bytes", maxConfigBytes)}
	}
	f, err := parseConfig(name, text)
	if err != nil {
		return nil, err
	}
	for _, path := range []*string{&f.Dir, &f.Out, &f.State} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(filepath.Dir(name), *path)
		}
	}
	for i := range f.Sets {
		f.Sets[i].From.relativeTo(filepath.Dir(name))
	}
	return f, nil
}

// parseConfig parses the text of a configuration file. The parser panics on some
// malformed texts; parseConfig returns these as errors too.
func parseConfig(name string, text []byte) (f *configFile, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f, err = nil, &configError{name, 0, fmt.Errorf("is not YAML that can be read: %v", cause)}
		}
	}()
	f = &configFile{name: name, lines: map[string]int{}}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, yamlError(name, err)
	}
	docs := 0
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if docs++; docs > 1 {
			return nil, &configError{name, doc.Body.GetToken().Position.Line, errors.New("a second YAML document begins here: expected one")}
		}
		w := keyWalk{f: f}
		ast.Walk(&w, doc.Body)
		if w.err != nil {
			return nil, w.err
		}
		if err := yaml.NodeToValue(doc.Body, &f.siteConfig, yaml.Strict()); err != nil {
			return nil, yamlError(name, err)
		}
	}
	return f, nil
}

// yamlError converts an error of the YAML parser or decoder, with its line.
func yamlError(name string, err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return &configError{name, 0, err}
	}
	line := 0
	if t := ye.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		return &configError{name, line, fmt.Errorf("expected %s, found %s", kindName(te.DstType), kindName(te.SrcType))}
	}
	return &configError{name, line, errors.New(ye.GetMessage())}
}

// kindName returns the name of a type for messages.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "keys with values"
	case reflect.Bool:
		return "true or false"
	}
	return "a whole number"
}

// keyWalk collects the keys of a file with their lines. It reports YAML features that a
// configuration does not need, and keys that have no effect.
type keyWalk struct {
	f   *configFile
	err error
}

// Visit examines one node.
func (w *keyWalk) Visit(n ast.Node) ast.Visitor {
	if w.err != nil {
		return nil
	}
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		w.refuse(n, "expected no anchors (&) and aliases (*)")
	case *ast.MappingValueNode:
		key := strings.TrimPrefix(n.Value.GetPath(), "$.")
		w.f.lines[key] = n.Key.GetToken().Position.Line
		if n.Value.Type() == ast.NullType {
			w.refuse(n.Key, fmt.Sprintf("%s: expected a value after it, or no such line", key))
		}
	}
	return w
}

func (w *keyWalk) refuse(n ast.Node, text string) {
	w.err = &configError{w.f.name, n.GetToken().Position.Line, errors.New(text)}
}
