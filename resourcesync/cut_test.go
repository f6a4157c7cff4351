package resourcesync

import (
	"errors"
	"strings"
	"testing"
)

func TestNoPrefixIsComplete(t *testing.T) {
	for name, doc := range kinds(t) {
		complete := strings.LastIndex(doc, "urlset\n>")
		if complete < 0 {
			complete = len(strings.TrimSpace(doc)) - 1
		} else {
			complete += len("urlset\n")
		}
		for n := range doc {
			h, _, _, err := decode(doc[:n])
			if n <= complete && err == nil {
				t.Errorf("%s cut after %d of %d bytes: read as complete", name, n, len(doc))
			}
			if err != nil && h.Capability != "" {
				t.Errorf("%s cut after %d bytes: a header at the end of an incomplete document", name, n)
			}
			e, ok := errors.AsType[*DecodeError](err)
			if err != nil && (!ok || e.Kind != Incomplete && e.Kind != NotResourceSync || e.Offset > int64(n)) {
				t.Errorf("%s cut after %d bytes: got %v", name, n, err)
			}
		}
		if _, _, _, err := decode(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
