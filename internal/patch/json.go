package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/wI2L/jsondiff"
)

func isJSON(mediaType string) bool {
	essence, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (essence == "application/json" || strings.HasSuffix(essence, "+json"))
}

// maxWork limits the time for applying a JSON Patch: the number of operations
// multiplied by the length of the document must not exceed maxWork. One operation can move
// every element of an array.
const maxWork = 1 << 30

// maxMade is the largest document, in bytes, for which a JSON Patch is made. Both
// versions are decoded in memory, which takes ten times their lengths.
const maxMade = 4 << 20

func makeJSON(before, after []byte) []byte {
	if len(before) > maxMade || len(after) > maxMade {
		return nil
	}
	if checkDepth(before) != nil || checkDepth(after) != nil {
		return nil
	}
	ops, err := jsondiff.CompareJSON(before, after, jsondiff.UnmarshalFunc(decodeExact))
	if err != nil || len(ops) > maxOperations {
		return nil
	}
	made, err := encodeOperations(ops)
	if err != nil {
		return nil
	}
	return made
}

type operation struct {
	Op    string  `json:"op"`
	From  *string `json:"from,omitempty"`
	Path  string  `json:"path"`
	Value *any    `json:"value,omitempty"`
}

// encodeOperations does not escape the characters < > &, because the values of a JSON Patch
// become part of the document.
func encodeOperations(ops jsondiff.Patch) ([]byte, error) {
	written := make([]operation, len(ops))
	for i := range ops {
		op := &ops[i]
		written[i] = operation{Op: op.Type, Path: op.Path}
		switch op.Type {
		case jsondiff.OperationAdd, jsondiff.OperationReplace, jsondiff.OperationTest:
			written[i].Value = &op.Value
		case jsondiff.OperationMove, jsondiff.OperationCopy:
			written[i].From = &op.From
		}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(written)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

func decodeExact(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// applyJSON checks the limits before it applies the patch, since applying cannot be
// interrupted.
func applyJSON(before, patch []byte, limit int64) ([]byte, error) {
	for _, text := range [][]byte{before, patch} {
		if err := checkDepth(text); err != nil {
			return nil, err
		}
	}
	ops, err := parseOperations(patch)
	if err != nil {
		return nil, err
	}
	if length := max(int64(len(before)), limit); int64(len(ops))*length > maxWork {
		return nil, fmt.Errorf("%w: %d operations are too many for a document of %d bytes", ErrBounds, len(ops), length)
	}
	o := jsonpatch.NewApplyOptions()
	o.SupportNegativeIndices, o.EscapeHTML = false, false
	o.AccumulatedCopySizeLimit = limit
	after, err := ops.ApplyWithOptions(before, o)
	if _, copied := errors.AsType[*jsonpatch.AccumulatedCopySizeError](err); copied {
		err = fmt.Errorf("%w: %w", ErrBounds, err)
	}
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	if int64(len(after)) > limit {
		return nil, tooLong(limit)
	}
	return after, checkDepth(after)
}

func parseOperations(patch []byte) (jsonpatch.Patch, error) {
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	if len(ops) > maxOperations {
		return nil, fmt.Errorf("%w: expected at most %d operations, found %d", ErrBounds, maxOperations, len(ops))
	}
	for _, op := range ops {
		path, err := op.Path()
		if err != nil {
			return nil, fmt.Errorf("reading the patch: %w", err)
		}
		from := ""
		if op["from"] != nil {
			if from, err = op.From(); err != nil {
				return nil, fmt.Errorf("reading the patch: %w", err)
			}
		}
		if strings.Count(path, "/") > maxDepth || strings.Count(from, "/") > maxDepth {
			return nil, fmt.Errorf("%w: expected a JSON pointer of at most %d steps", ErrBounds, maxDepth)
		}
	}
	return ops, nil
}

// checkDepth returns an error unless a text is JSON whose values are nested at most
// maxDepth levels deep.
func checkDepth(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for depth := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("expected JSON: %w", err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return fmt.Errorf("%w: values are nested more than %d deep", ErrBounds, maxDepth)
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}
