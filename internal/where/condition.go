package where

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/antchfx/xpath"
)

// maxCondition is the largest length of a condition, in bytes.
const maxCondition = 4 << 10

// namespaces has the prefixes that conditions may use for every record, with their
// namespaces.
var namespaces = map[string]string{
	"dc":      "http://purl.org/dc/elements/1.1/",
	"dcterms": "http://purl.org/dc/terms/",
	"mods":    "http://www.loc.gov/mods/v3",
	"oai_dc":  "http://www.openarchives.org/OAI/2.0/oai_dc/",
	"xml":     "http://www.w3.org/XML/1998/namespace",
}

type condition struct {
	path   string // an XPath 1.0 expression, which must select a node of the record
	value  string // the text that a selected node must have
	exists bool   // whether the node may have any text, so that value is not used
}

// anyOfNamespace matches a node test such as dc:*, for which the XPath module never finds a
// node.
var anyOfNamespace = regexp.MustCompile(`[^:]:\*`)

func parseCondition(text string) (condition, error) {
	c := condition{path: text, exists: true}
	if i := equals(text); i >= 0 {
		c = condition{path: text[:i], value: strings.TrimSpace(text[i+1:])}
	}
	c.path = strings.TrimSpace(c.path)
	switch {
	case len(text) > maxCondition:
		return c, fmt.Errorf("the condition has %d bytes; expected at most %d", len(text), maxCondition)
	case c.path == "":
		return c, fmt.Errorf("%q: expected XPATH=VALUE or XPATH", text)
	case anyOfNamespace.MatchString(c.path):
		return c, fmt.Errorf("%q: a prefix followed by * is not supported: use *[namespace-uri()='URI']", text)
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

// selectsNodes returns an error if the result of an expression is not a set of nodes, but a
// number, a text or a truth value.
func selectsNodes(expr *xpath.Expr, w *work) error {
	empty := &node{kind: xpath.RootNode}
	if _, ok := expr.Evaluate(w.navigator(empty)).(*xpath.NodeIterator); !ok {
		return fmt.Errorf("the XPath does not select nodes: put the comparison in brackets, as in *[count(*)>1]")
	}
	return nil
}

// equals returns the position of the first "=" outside of quotes, brackets and parentheses,
// which separates the expression from the value. It returns -1 if there is none.
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

// holds reports whether the record fulfils the condition. It returns false if the
// expression has a prefix that is neither in namespaces nor declared in the record.
func (c condition) holds(r *record, w *work) (bool, error) {
	expr, err := xpath.CompileWithNS(c.path, r.prefixes)
	if err != nil { // the record does not declare a prefix: parseCondition has reported any other error
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
