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

const maxConfigBytes = 1 << 20

type configError struct {
	file string
	line int // the line of the error in the file; 0 if the error is about the whole file
	err  error
}

func (e *configError) Error() string {
	if e.line == 0 {
		return fmt.Sprintf("%s: %v", e.file, e.err)
	}
	return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err)
}

func (e *configError) Unwrap() error { return e.err }

type configFile struct {
	name string
	siteConfig
	lines map[string]int // the line of each key in the file; the keys have forms such as base_url and sets[0].name
}

// readConfigFile resolves relative paths in the file against the directory of the file.
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
		return nil, &configError{name, 0, fmt.Errorf("expected a configuration of at most %d bytes", maxConfigBytes)}
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
		f.Sets[i].From.resolvePaths(filepath.Dir(name))
	}
	return f, nil
}

// parseConfig also returns an error if the YAML parser panics, as it does for some malformed
// texts.
func parseConfig(name string, text []byte) (f *configFile, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f, err = nil, &configError{name, 0, fmt.Errorf("the file is not valid YAML: %v", cause)}
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
			return nil, &configError{name, doc.Body.GetToken().Position.Line, errors.New("expected one YAML document, but a second one begins on this line")}
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
	if ne, ok := errors.AsType[*yaml.UnexpectedNodeTypeError](err); ok {
		return &configError{name, line, fmt.Errorf("expected %s, found %s", nodeName(ne.Expected), nodeName(ne.Actual))}
	}
	return &configError{name, line, errors.New(ye.GetMessage())}
}

func nodeName(t ast.NodeType) string {
	switch t {
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "keys with values"
	case ast.IntegerType, ast.FloatType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	}
	return t.YAMLName()
}

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

// keyWalk collects the line of each key. It refuses anchors, aliases and keys without a value.
type keyWalk struct {
	f   *configFile
	err error
}

// Visit implements ast.Visitor.
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
			w.refuse(n.Key, fmt.Sprintf("%s: expected a value after the key", key))
		}
	}
	return w
}

func (w *keyWalk) refuse(n ast.Node, text string) {
	w.err = &configError{w.f.name, n.GetToken().Position.Line, errors.New(text)}
}
