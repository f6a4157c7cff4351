package where

import (
	"errors"
	"fmt"
	"strings"

	"github.com/antchfx/xpath"
)

// maxWork is the largest amount of work for all evaluations on one record. Each step
// from node to node counts as one unit, and so do 64 bytes of text.
const maxWork = 5 << 20

var errWork = errors.New("the XPath takes too much work on this record")

// work counts down the work that evaluations may still do.
type work struct{ left int }

func (w *work) spend(steps int) {
	if w.left -= steps; w.left < 0 {
		panic(errWork)
	}
}

// try calls a function that evaluates an expression. It returns a panic of the function
// as an error, because the XPath module panics instead of returning errors.
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

// navigator moves from node to node in a record and counts each step.
type navigator struct {
	*node
	work *work
	root *node
	attr int // the index of the attribute at which the navigator is; -1 if the navigator is at the node itself
}

// NodeType returns the kind of the current node.
func (n *navigator) NodeType() xpath.NodeType {
	if n.attr >= 0 {
		return xpath.AttributeNode
	}
	return n.kind
}

// LocalName returns the name of the current node without its prefix.
func (n *navigator) LocalName() string {
	if n.attr >= 0 {
		return n.attrs[n.attr].Name.Local
	}
	return n.name.Local
}

// NamespaceURL returns the namespace of the current node.
func (n *navigator) NamespaceURL() string {
	if n.attr >= 0 {
		return n.attrs[n.attr].Name.Space
	}
	return n.name.Space
}

// Prefix returns the prefix of the current node; "" for an element in the default
// namespace.
func (n *navigator) Prefix() string {
	if n.attr >= 0 { // an attribute without a prefix has no namespace
		return n.attrs[n.attr].Name.Space
	}
	return n.prefix
}

// Value returns the text of the current node.
func (n *navigator) Value() string {
	if n.attr >= 0 {
		n.work.spend(1 + len(n.attrs[n.attr].Value)>>6)
		return n.attrs[n.attr].Value
	}
	var b strings.Builder
	n.appendText(&b, n.node)
	return b.String()
}

func (n *navigator) appendText(b *strings.Builder, in *node) {
	n.work.spend(1 + len(in.data)>>6)
	b.WriteString(in.data)
	for child := in.first; child != nil; child = child.next {
		n.appendText(b, child)
	}
}

// Copy returns another navigator at the same node, which moves independently.
func (n *navigator) Copy() xpath.NodeNavigator {
	n.work.spend(1)
	other := *n
	return &other
}

// MoveTo moves to the current node of another navigator.
func (n *navigator) MoveTo(other xpath.NodeNavigator) bool {
	n.work.spend(1)
	o, ok := other.(*navigator)
	if ok = ok && o.root == n.root; ok {
		n.node, n.attr = o.node, o.attr
	}
	return ok
}

// MoveToRoot moves to the root of the record, which is the document.
func (n *navigator) MoveToRoot() { n.node, n.attr = n.root, -1 }

// MoveToParent moves to the parent of the current node. For an attribute that is its
// element.
func (n *navigator) MoveToParent() bool {
	if n.attr >= 0 {
		n.attr = -1
		return true
	}
	return n.move(n.parent)
}

// MoveToNextAttribute moves from an element to its first attribute, or from an
// attribute to the next one.
func (n *navigator) MoveToNextAttribute() bool {
	n.work.spend(1)
	if n.attr+1 >= len(n.attrs) {
		return false
	}
	n.attr++
	return true
}

// MoveToChild moves to the first child of the current node.
func (n *navigator) MoveToChild() bool { return n.move(n.first) }

// MoveToNext moves to the next sibling of the current node.
func (n *navigator) MoveToNext() bool { return n.move(n.next) }

// MoveToPrevious moves to the previous sibling of the current node.
func (n *navigator) MoveToPrevious() bool { return n.move(n.before) }

// MoveToFirst moves to the first sibling of the current node. It returns false if the
// current node is the first one.
func (n *navigator) MoveToFirst() bool {
	if n.before == nil {
		return false
	}
	return n.move(n.parent.first)
}

// move moves to the given node, unless the node is nil or the navigator is at an
// attribute.
func (n *navigator) move(to *node) bool {
	n.work.spend(1)
	if n.attr >= 0 || to == nil {
		return false
	}
	n.node = to
	return true
}
