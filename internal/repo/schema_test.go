package repo

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaJSON is the part of docs/schema.json that the tests look into.
type schemaJSON struct {
	OneOf []struct {
		Ref string `json:"$ref"`
	} `json:"oneOf"`
	Defs map[string]struct {
		Properties map[string]json.RawMessage
	} `json:"$defs"`
}

func readSchema(t *testing.T) (*jsonschema.Schema, schemaJSON) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var parts schemaJSON
	if err := json.Unmarshal(text, &parts); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema, parts
}

func TestSchemaTellsGoodRecordsFromBad(t *testing.T) {
	schema, parts := readSchema(t)
	archive, err := txtar.ParseFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, f := range archive.Files {
		for line := range strings.Lines(string(f.Data)) {
			record, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
			if err != nil {
				t.Fatalf("%s: %v: %s", f.Name, err, line)
			}
			err = schema.Validate(record)
			switch good := f.Name == "good"; {
			case good && err != nil:
				t.Errorf("refused: %s%v", line, err)
			case good:
				shown[record.(map[string]any)["type"].(string)] = true
			case err == nil:
				t.Errorf("accepted: %s", line)
			}
		}
	}
	for _, r := range parts.OneOf {
		if name := strings.TrimPrefix(r.Ref, "#/$defs/"); !shown[name] {
			t.Errorf("testdata/records.txt has no good record of type %s", name)
		}
	}
}

// Field names only grow: the list of those that were ever there is kept beside
// the schema, and -update adds to it but takes nothing away.
func TestSchemaFieldsOnlyGrow(t *testing.T) {
	const list = "testdata/schema-fields.txt"
	_, parts := readSchema(t)
	have := map[string]bool{}
	for _, r := range parts.OneOf {
		name := strings.TrimPrefix(r.Ref, "#/$defs/")
		for field := range parts.Defs[name].Properties {
			have[name+"."+field] = true
		}
	}
	text, err := os.ReadFile(list)
	if err != nil && !*update {
		t.Fatal(err)
	}
	all := maps.Clone(have)
	for _, f := range strings.Fields(string(text)) {
		all[f] = true
		if !have[f] {
			t.Errorf("docs/schema.json has lost the field %s", f)
		}
	}
	golden(t, "internal/repo/"+list, []byte(strings.Join(slices.Sorted(maps.Keys(all)), "\n")+"\n"))
}

// writtenFields lists the fields of the structs of the command line that are records, that is
// those with a method kind, as TYPE.FIELD by the names they have in JSON.
func writtenFields(files tree) []string {
	kinds, fields := map[string]string{}, map[string][]string{}
	for _, name := range files.names(".go") {
		if path.Dir(name) != "cmd/instep" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, _ := parser.ParseFile(token.NewFileSet(), name, files[name], parser.SkipObjectResolution)
		if file == nil {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					fields[n.Name.Name] = jsonNames(s)
				}
			case *ast.FuncDecl:
				if n.Name.Name == "kind" && n.Recv != nil && len(n.Body.List) == 1 {
					of := strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*")
					kinds[of], _ = strconv.Unquote(types.ExprString(n.Body.List[0].(*ast.ReturnStmt).Results[0]))
				}
			}
			return true
		})
	}
	var out []string
	for _, of := range slices.Sorted(maps.Keys(kinds)) {
		for _, field := range fields[of] {
			out = append(out, kinds[of]+"."+field)
		}
	}
	return out
}

func jsonNames(s *ast.StructType) []string {
	var out []string
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		if name, _, _ := strings.Cut(tag.Get("json"), ","); name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}

func TestSchemaHasEveryFieldWritten(t *testing.T) {
	_, parts := readSchema(t)
	known, written := map[string]bool{}, map[string]bool{}
	for kind, d := range parts.Defs {
		for field := range d.Properties {
			known[kind+"."+field] = true
		}
	}
	for _, f := range writtenFields(repository(t)) {
		if !known[f] {
			t.Errorf("cmd/instep writes %s, which docs/schema.json does not have", f)
		}
		kind, _, _ := strings.Cut(f, ".")
		written[kind] = true
	}
	for _, r := range parts.OneOf {
		if kind := strings.TrimPrefix(r.Ref, "#/$defs/"); !written[kind] {
			t.Errorf("cmd/instep has no struct with the kind %s, which docs/schema.json has", kind)
		}
	}
	got := writtenFields(tree{"cmd/instep/a.go": []byte("package main\ntype r struct {\n\trecordHead\n\tNew *int `json:\"new,omitempty\"`\n\tNo int `json:\"-\"`\n}\nfunc (*r) kind() string { return \"row\" }\ntype other struct { X int `json:\"x\"` }\n")})
	if d := cmp.Diff(got, []string{"row.new"}); d != "" {
		t.Errorf("fields found in a struct (-got +want):\n%s", d)
	}
}
