package where

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/antchfx/xpath"
)

// maxCondition is the largest length of a condition, in bytes.
const maxCondition = 4 << 10

// namespaces maps the prefixes that conditions may always use to their namespaces. Records
// cannot redefine these prefixes.
var namespaces = map[string]string{
	"dc":      "http://purl.org/dc/elements/1.1/",
	"dcterms": "http://purl.org/dc/terms/",
	"mods":    "http://www.loc.gov/mods/v3",
	"oai_dc":  "http://www.openarchives.org/OAI/2.0/oai_dc/",
	"xml":     "http://www.w3.org/XML/1998/namespace",
}

// condition is an XPath 1.0 expression that must select a node of the record. Unless exists
// is set, the text of a selected node must equal the field value.
type condition struct {
	path, value string
	exists      bool
}

// anyOfNamespace matches a node test for all names of a prefix, such as dc:*. The XPath
// module never finds a node for such a test.
var anyOfNamespace = regexp.MustCompile(`[^:]:\*`)

func parseCondition(text string) (condition, error) {
	c := condition{path: text, exists: true}
	if i := equals(text); i >= 0 {
		c = condition{path: text[:i], value: strings.TrimSpace(text[i+1:])}
	}
	c.path = strings.TrimSpace(c.path)
	switch {
	case len(text) > maxCondition:
		return c, fmt.Errorf("a condition of %d bytes: expected at most %d", len(text), maxCondition)
	case c.path == "":
		return c, fmt.Errorf("%q: expected XPATH=VALUE or XPATH", text)
	case anyOfNamespace.MatchString(c.path):
		return c, fmt.Errorf("%q: a condition can't match all names of a prefix: use *[namespace-uri()='URI']", text)
	}
	expr, err := xpath.Compile(c.path)
	if err != nil {
		return c, fmt.Errorf("%q: the XPath is not valid: %w", text, err)
	}
	nothing := &work{left: maxWork}
	if err := nothing.try(func() error { return selectsNodes(expr, nothing) }); err != nil {
		return c, fmt.Errorf("%q: %w", text, err)
	}
	return c, nil
}

// selectsNodes returns an error if an expression does not select nodes, but counts or
// compares, so that the result has no text.
func selectsNodes(expr *xpath.Expr, w *work) error {
	empty := &node{kind: xpath.RootNode}
	if _, ok := expr.Evaluate(w.navigator(empty)).(*xpath.NodeIterator); !ok {
		return fmt.Errorf("the XPath does not select nodes: put the comparison in brackets, as in *[count(*)>1]")
	}
	return nil
}

// equals returns the position of the "=" that separates the expression from the value:
// the first one outside of quotes, brackets and parentheses. It returns -1 if there is
// none.
func equals(text string) int {
	depth, quote := 0, byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case c == '=' && depth == 0:
			return i
		}
	}
	return -1
}

// holds reports whether a record fulfils the condition. Names with a prefix that is
// neither in namespaces nor declared in the record match nothing.
func (c condition) holds(r *record, w *work) (bool, error) {
	expr, err := xpath.CompileWithNS(c.path, r.prefixes)
	if err != nil { // the expression must have an unknown prefix, because parseCondition compiled it without namespaces
		return false, nil
	}
	found := false
	err = w.try(func() error {
		for nodes := expr.Select(w.navigator(r.root)); !found && nodes.MoveNext(); {
			found = c.exists || strings.TrimSpace(nodes.Current().Value()) == c.value
		}
		return nil
	})
	return found, err
}
