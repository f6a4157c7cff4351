package repo

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestLibraryPrograms compiles the Go programs of docs/library.md, as if they lay in the module.
func TestLibraryPrograms(t *testing.T) {
	text, err := os.ReadFile("../../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(programs) < 2 {
		t.Fatalf("got %d programs, want one for each role", len(programs))
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := map[string]string{}
	args := []string{"build", "-o", dir, "-overlay", filepath.Join(dir, "overlay.json")}
	for i, p := range programs {
		name := fmt.Sprintf("library%d", i)
		file := filepath.Join(dir, name+".go")
		if err := os.WriteFile(file, p[1], 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(root, "cmd", name, "main.go")] = file
		args = append(args, "./cmd/"+name)
	}
	overlays, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlays, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
