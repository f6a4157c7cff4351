package where

import (
	"errors"
	"fmt"
	"strings"

	"github.com/antchfx/xpath"
)

// maxWork is the largest number of steps in all evaluations on one record. A step is a move
// from node to node, or the reading of 64 bytes of text.
const maxWork = 5 << 20

var errWork = errors.New("the XPath takes too many steps on this record")

type work struct{ left int } // the number of steps that are still allowed

func (w *work) spend(steps int) {
	if w.left -= steps; w.left < 0 {
		panic(errWork)
	}
}

// try calls the function evaluate and returns a panic of it as an error, because the XPath
// module panics instead of returning errors.
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

// navigator implements xpath.NodeNavigator and counts each step.
type navigator struct {
	*node
	work *work
	root *node
	attr int // the index of the current attribute; -1 if the node itself is current
}

func (n *navigator) NodeType() xpath.NodeType {
	if n.attr >= 0 {
		return xpath.AttributeNode
	}
	return n.kind
}

func (n *navigator) LocalName() string {
	if n.attr >= 0 {
		return n.attrs[n.attr].Name.Local
	}
	return n.name.Local
}

func (n *navigator) NamespaceURL() string {
	if n.attr >= 0 {
		return n.attrs[n.attr].Name.Space
	}
	return n.name.Space
}

func (n *navigator) Prefix() string {
	if n.attr >= 0 { // an attribute without a prefix has no namespace
		return n.attrs[n.attr].Name.Space
	}
	return n.prefix
}

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

func (n *navigator) Copy() xpath.NodeNavigator {
	n.work.spend(1)
	other := *n
	return &other
}

func (n *navigator) MoveTo(other xpath.NodeNavigator) bool {
	n.work.spend(1)
	o, ok := other.(*navigator)
	if ok = ok && o.root == n.root; ok {
		n.node, n.attr = o.node, o.attr
	}
	return ok
}

func (n *navigator) MoveToRoot() { n.node, n.attr = n.root, -1 }

func (n *navigator) MoveToParent() bool {
	if n.attr >= 0 {
		n.attr = -1
		return true
	}
	return n.move(n.parent)
}

func (n *navigator) MoveToNextAttribute() bool {
	n.work.spend(1)
	if n.attr+1 >= len(n.attrs) {
		return false
	}
	n.attr++
	return true
}

func (n *navigator) MoveToChild() bool { return n.move(n.first) }

func (n *navigator) MoveToNext() bool { return n.move(n.next) }

func (n *navigator) MoveToPrevious() bool { return n.move(n.before) }

func (n *navigator) MoveToFirst() bool {
	if n.before == nil {
		return false
	}
	return n.move(n.parent.first)
}

// move makes a node the current one. It returns false if the node is nil, or if an
// attribute is current.
func (n *navigator) move(to *node) bool {
	n.work.spend(1)
	if n.attr >= 0 || to == nil {
		return false
	}
	n.node = to
	return true
}
