package repo

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	sampleSize = flag.Int("sample", 0, "print this many comments and messages drawn at random")
	sampleSeed = flag.Uint64("seed", 1, "draw them with this seed")
	sampleOf   = flag.String("rooms", ".", "draw them from files whose path matches this expression")
)

// TestSample prints comments and messages drawn at random, for somebody who reads each
// without the code around it and judges whether it is clear:
//
//	go test ./internal/repo -run TestSample -v -args -sample 100 -seed 7 -rooms '^(source|fetch)/'
func TestSample(t *testing.T) {
	of, err := regexp.Compile(*sampleOf)
	if err != nil {
		t.Fatal(err)
	}
	sentences := sentencesOf(t, of)
	if len(sentences) == 0 {
		t.Fatal("no comments and messages were found")
	}
	r := rand.New(rand.NewPCG(*sampleSeed, 0))
	r.Shuffle(len(sentences), func(i, j int) { sentences[i], sentences[j] = sentences[j], sentences[i] })
	var text strings.Builder
	for i, s := range sentences[:min(*sampleSize, len(sentences))] {
		fmt.Fprintf(&text, "%d. %s\n", i+1, s)
	}
	if *sampleSize > 0 {
		t.Logf("seed %d, %d of %d\n%s", *sampleSeed, *sampleSize, len(sentences), &text)
	}
}

// sentencesOf lists the comments and string literals of four words or more in production
// files, each with its place.
func sentencesOf(t *testing.T, of *regexp.Regexp) (sentences []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || !of.MatchString(name) {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		add := func(at token.Pos, text string) {
			if text = strings.Join(strings.Fields(text), " "); strings.Count(text, " ") >= 3 {
				sentences = append(sentences, fmt.Sprintf("%s:%d: %s", name, files.Position(at).Line, text))
			}
		}
		for _, c := range file.Comments {
			add(c.Pos(), c.Text())
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && !strings.Contains(text, "\n") {
					add(lit.Pos(), strconv.Quote(text))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sentences
}
