package where

import (
	"errors"
	"fmt"
	"strings"

	"github.com/antchfx/xpath"
)

// maxWork bounds the evaluations on one record. It counts steps from node to node, and
// texts in units of 64 bytes.
const maxWork = 5 << 20

// errWork means that an evaluation exceeded maxWork.
var errWork = errors.New("the XPath takes too much work on this record")

// work counts down the steps of evaluations.
type work struct{ left int }

func (w *work) spend(steps int) {
	if w.left -= steps; w.left < 0 {
		panic(errWork)
	}
}

// try calls a function that evaluates an expression, and returns its panic as an error,
// because the XPath module panics on errors.
func (w *work) try(evaluate func() error) (err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case error:
			err = failed
		default:
			err = fmt.Errorf("%v", failed)
		}
	}()
	return evaluate()
}

func (w *work) navigator(root *node) xpath.NodeNavigator {
	return &navigator{work: w, root: root, node: root, attr: -1}
}

// navigator moves in a record and counts each step.
type navigator struct {
	*node
	work *work
	root *node
	attr int // index of an attribute of node if the navigator is at the attribute; -1 if it is at node itself
}

// NodeType returns the kind of the node.
func (n *navigator) NodeType() xpath.NodeType {
	if n.attr >= 0 {
		return xpath.AttributeNode
	}
	return n.kind
}

// LocalName returns the name without prefix.
func (n *navigator) LocalName() string {
	if n.attr >= 0 {
		return n.attrs[n.attr].Name.Local
	}
	return n.name.Local
}

// NamespaceURL returns the namespace.
func (n *navigator) NamespaceURL() string {
	if n.attr >= 0 {
		return n.attrs[n.attr].Name.Space
	}
	return n.name.Space
}

// Prefix returns the prefix; "" for elements of the default namespace.
func (n *navigator) Prefix() string {
	if n.attr >= 0 { // an attribute without a prefix has no namespace
		return n.attrs[n.attr].Name.Space
	}
	return n.prefix
}

// Value returns the text of the node.
func (n *navigator) Value() string {
	if n.attr >= 0 {
		n.work.spend(1 + len(n.attrs[n.attr].Value)>>6)
		return n.attrs[n.attr].Value
	}
	var b strings.Builder
	n.text(&b, n.node)
	return b.String()
}

// text appends the text in a node.
func (n *navigator) text(b *strings.Builder, in *node) {
	n.work.spend(1 + len(in.data)>>6)
	b.WriteString(in.data)
	for child := in.first; child != nil; child = child.next {
		n.text(b, child)
	}
}

// Copy returns another navigator at the same node.
func (n *navigator) Copy() xpath.NodeNavigator {
	n.work.spend(1)
	other := *n
	return &other
}

// MoveTo moves to the node of another navigator.
func (n *navigator) MoveTo(other xpath.NodeNavigator) bool {
	n.work.spend(1)
	o, ok := other.(*navigator)
	if ok = ok && o.root == n.root; ok {
		n.node, n.attr = o.node, o.attr
	}
	return ok
}

// MoveToRoot moves to the document.
func (n *navigator) MoveToRoot() { n.node, n.attr = n.root, -1 }

// MoveToParent moves to the parent, or from an attribute to its element.
func (n *navigator) MoveToParent() bool {
	if n.attr >= 0 {
		n.attr = -1
		return true
	}
	return n.move(n.parent)
}

// MoveToNextAttribute moves to the first or next attribute.
func (n *navigator) MoveToNextAttribute() bool {
	n.work.spend(1)
	if n.attr+1 >= len(n.attrs) {
		return false
	}
	n.attr++
	return true
}

// MoveToChild moves to the first child.
func (n *navigator) MoveToChild() bool { return n.move(n.first) }

// MoveToNext moves to the next sibling.
func (n *navigator) MoveToNext() bool { return n.move(n.next) }

// MoveToPrevious moves to the sibling before.
func (n *navigator) MoveToPrevious() bool { return n.move(n.before) }

// MoveToFirst moves to the first sibling. It returns false if the node is the first
// one.
func (n *navigator) MoveToFirst() bool {
	if n.before == nil {
		return false
	}
	return n.move(n.parent.first)
}

// move moves to another node, unless that is nil or n is at an attribute.
func (n *navigator) move(to *node) bool {
	n.work.spend(1)
	if n.attr >= 0 || to == nil {
		return false
	}
	n.node = to
	return true
}
