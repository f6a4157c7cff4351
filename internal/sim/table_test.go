package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of switches anew")

// tableMark is before the generated part of docs/simulate.md.
const tableMark = "<!-- What follows is written by `make switches`. -->\n"

// notSimulated are the quirks that no switch shows, and why.
var notSimulated = map[string]string{
	"48": "a second hash that is right needs other digests than the model keeps; newlines and an unknown algorithm are shown by the fault odd-hashes",
	"56": "no writer of xz is at hand",
}

func table() string {
	var b strings.Builder
	b.WriteString(tableMark + "\n| switch | what the Source does | for | share |\n|---|---|---|---|\n")
	for _, sw := range Switches() {
		rows, share := sw.Rows, ""
		if rows == "" {
			rows = "quirk " + sw.Name
		}
		if sw.Of != Always {
			share = fmt.Sprintf("%g%% of %s", sw.Share*100, sw.Of)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", sw.Name, sw.Says, rows, share)
	}
	b.WriteString("\nNo switch shows these quirks:\n\n")
	for _, number := range slices.Sorted(maps.Keys(notSimulated)) {
		fmt.Fprintf(&b, "- %s: %s\n", number, notSimulated[number])
	}
	return b.String()
}

// TestSwitchesTable keeps docs/simulate.md as the switches say.
func TestSwitchesTable(t *testing.T) {
	const name = "../../docs/simulate.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	written, kept, _ := strings.Cut(string(text), tableMark)
	want := written + table()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table(), tableMark+kept); diff != "" {
		t.Errorf("docs/simulate.md is not what the switches say (make switches writes it anew), -want +got:\n%s", diff)
	}
}
