package resourcesync

import (
	archive "archive/zip"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What fuzzing has found is kept in one archive per target, testdata/corpus/NAME.zip:
// every member is one input. `make corpus` merges the cache of the fuzzer into it.
const (
	maxCorpusInput = 16 << 10  // larger inputs are dropped
	maxCorpus      = 768 << 10 // of all inputs together; the smallest are kept
)

var mergeCorpus = flag.String("corpus", "", "directory of the fuzz cache to merge into testdata/corpus")

// fuzzTargets are the targets that have a corpus.
var fuzzTargets = []string{"FuzzDatetime", "FuzzDecoder", "FuzzDialects", "FuzzDigest"}

// addCorpus has f begin with what fuzzing has found before, converted to the type of
// its argument.
func addCorpus[T string | []byte](f *testing.F) {
	f.Helper()
	inputs, err := readCorpus(f.Name())
	if err != nil {
		f.Fatal(err)
	}
	for _, in := range inputs {
		f.Add(T(in))
	}
}

func corpusFile(target string) string { return filepath.Join("testdata", "corpus", target+".zip") }

func readCorpus(target string) (inputs [][]byte, err error) {
	r, err := archive.OpenReader(corpusFile(target))
	if err != nil {
		return nil, fmt.Errorf("open the corpus of %s: %w", target, err)
	}
	defer r.Close()
	for _, member := range r.File {
		b, err := fs.ReadFile(r, member.Name)
		if err != nil {
			return nil, fmt.Errorf("read %s of the corpus of %s: %w", member.Name, target, err)
		}
		inputs = append(inputs, b)
	}
	return inputs, nil
}

// tidyCorpus returns the inputs that are kept, in their order.
func tidyCorpus(inputs [][]byte) [][]byte {
	inputs = slices.Clone(inputs)
	slices.SortFunc(inputs, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
	})
	inputs = slices.CompactFunc(inputs, bytes.Equal)
	total := 0
	for i, in := range inputs {
		if total += len(in); len(in) > maxCorpusInput || total > maxCorpus {
			return inputs[:i]
		}
	}
	return inputs
}

// packCorpus returns the archive of inputs: the same bytes for the same set.
func packCorpus(inputs [][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := archive.NewWriter(&out)
	for i, in := range tidyCorpus(inputs) {
		member, err := w.CreateHeader(&archive.FileHeader{Name: fmt.Sprintf("%05d", i), Method: archive.Deflate})
		if err != nil {
			return nil, err
		}
		if _, err := member.Write(in); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// readFuzzFile returns the input in a file as the fuzzer writes it: a line of its
// version, then one argument as a Go expression.
func readFuzzFile(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	first, second, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	quoted := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(second, "[]byte("), "string("), ")")
	in, err := strconv.Unquote(quoted)
	if first != "go test fuzz v1" || err != nil {
		return nil, fmt.Errorf("%s: expected one string or []byte as go test fuzz v1 writes it: %w", name, err)
	}
	return []byte(in), nil
}

// mergeCache writes the archive of target anew, with what dir/TARGET has.
func mergeCache(t *testing.T, target, dir string) {
	inputs, err := readCorpus(target)
	if err != nil {
		t.Logf("a new corpus: %v", err)
	}
	before := len(inputs)
	files, err := filepath.Glob(filepath.Join(dir, target, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		in, err := readFuzzFile(name)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, in)
	}
	packed, err := packCorpus(inputs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(corpusFile(target), packed, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d inputs before, %d in the cache, %d bytes of archive", target, before, len(files), len(packed))
}

// TestCorpora checks that the archives have what merging them again would keep.
func TestCorpora(t *testing.T) {
	for _, target := range fuzzTargets {
		if *mergeCorpus != "" {
			mergeCache(t, target, *mergeCorpus)
		}
		inputs, err := readCorpus(target)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(inputs, tidyCorpus(inputs), bytes.Equal) {
			t.Errorf("%s is not in its order, has duplicates or is too large (make corpus writes it anew)", corpusFile(target))
		}
	}
}
