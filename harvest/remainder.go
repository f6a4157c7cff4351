package harvest

import (
	"slices"

	"instep/internal/spool"
	"instep/resourcesync"
)

// Remainder contains the attributes and links of a resource for which Resource has no
// field (1.1 §7, §14). It holds the text of a resourcesync.Remainder; the zero
// Remainder is empty. While documents are read, the text may be in a temporary file,
// and reading it may return an error. Mirrors and consumers of changes get Remainders
// whose text is in memory.
type Remainder struct {
	text string
	kept *kept // position of the text in a temporary file; nil if the text is in memory
}

type kept struct {
	log *spool.Log[string]
	at  spool.Place
}

// dropped marks a Remainder whose text was longer than resourcesync.MaxRemainder.
var dropped = &kept{}

// droppedText stands for a dropped Remainder in a temporary file and in the records of
// a mirror. Parsing it returns an empty Remainder.
const droppedText = `{"dropped":true}`

// NewRemainder restores a Remainder from the text that its method Text returned.
func NewRemainder(text string) Remainder { return Remainder{text: text} }

// remainderOf returns the Remainder of an entry. A deletion has none.
func remainderOf(e *resourcesync.Entry) Remainder {
	r := e.Remainder()
	// links to patches are left out, because they belong to a change and not to the resource
	r.Links = slices.DeleteFunc(slices.Clone(r.Links), func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelPatch })
	if e.Change == resourcesync.Deleted || r.IsZero() {
		return Remainder{}
	}
	text, err := r.Text()
	if err != nil || len(text) > resourcesync.MaxRemainder {
		return Remainder{kept: dropped}
	}
	return Remainder{text: text}
}

// Text returns the text to store; "" for an empty Remainder. Equal Remainders have
// equal texts.
func (r Remainder) Text() (string, error) {
	if r.kept == nil || r.kept == dropped {
		return r.text, nil
	}
	return r.kept.log.At(r.kept.at)
}

// Parse parses the text into attributes and links.
func (r Remainder) Parse() (resourcesync.Remainder, error) {
	text, err := r.Text()
	if err != nil {
		return resourcesync.Remainder{}, err
	}
	return resourcesync.ParseRemainder(text)
}

// IsZero reports whether the Remainder is empty, and not because its text was too long
// (see Dropped).
func (r Remainder) IsZero() bool { return r.text == "" && r.kept == nil }

// Equal reports whether both texts are equal. It returns false if a text cannot be
// read.
func (r Remainder) Equal(o Remainder) bool {
	a, errA := r.Text()
	b, errB := o.Text()
	return errA == nil && errB == nil && a == b
}

// MarshalText returns the result of Text, or a marker for a dropped Remainder.
func (r Remainder) MarshalText() ([]byte, error) {
	if r.Dropped() {
		return []byte(droppedText), nil
	}
	text, err := r.Text()
	return []byte(text), err
}

// UnmarshalText parses the result of MarshalText.
func (r *Remainder) UnmarshalText(text []byte) error {
	if *r = (Remainder{text: string(text)}); r.text == droppedText {
		*r = Remainder{kept: dropped}
	}
	return nil
}

// Load reads the text into memory, so that it can be used after its temporary file was
// removed.
func (r *Remainder) Load() error {
	text, err := r.Text()
	if err == nil {
		*r = Remainder{text: text}
	}
	return err
}

// setAside moves the text from memory to a temporary file, because thousands of changes
// are in memory and the Source decides how many links each has. The text can be read
// until log is closed.
func (r *Remainder) setAside(log *spool.Log[string]) error {
	if r.text == "" {
		return nil
	}
	at, err := log.AppendAt(r.text)
	if err == nil {
		*r = Remainder{kept: &kept{log, at}}
	}
	return err
}

// Held returns the number of bytes of text in memory; 0 if the text is in a temporary
// file.
func (r Remainder) Held() int { return len(r.text) }

// Dropped reports whether the Remainder is empty because its text was longer than
// resourcesync.MaxRemainder.
func (r Remainder) Dropped() bool { return r.kept == dropped }
