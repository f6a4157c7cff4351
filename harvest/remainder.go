package harvest

import (
	"instep/internal/spool"
	"instep/resourcesync"
)

// Remainder has the attributes and links of a resource that have no field in a Resource
// (1.1 §7, §14), as the text of a resourcesync.Remainder, which a Destination does not
// interpret. The zero Remainder is empty.
//
// While a plan is made the text may be in a temporary file, and reading it may fail. A
// Mirror and a consumer of Changes get it in memory.
type Remainder struct {
	text string
	kept *kept // place of the text; nil: in text
}

// kept is the place of a text in a spool.
type kept struct {
	log *spool.Log[string]
	at  spool.Place
}

// dropped marks a Remainder without a text, because it was longer than
// resourcesync.MaxRemainder.
var dropped = &kept{}

// droppedText stands for that in a temporary file, and in what a Mirror keeps of a resource that
// is due. It parses as a Remainder that says nothing.
const droppedText = `{"dropped":true}`

// NewRemainder returns the Remainder of a text that Text has returned.
func NewRemainder(text string) Remainder { return Remainder{text: text} }

// remainderOf returns the Remainder of an entry; the zero one of a deletion.
func remainderOf(e *resourcesync.Entry) Remainder {
	r := e.Remainder()
	r.Links = withoutPatches(r.Links)
	if e.Change == resourcesync.Deleted || r.IsZero() {
		return Remainder{}
	}
	text, err := r.Text()
	if err != nil || len(text) > resourcesync.MaxRemainder {
		return Remainder{kept: dropped}
	}
	return Remainder{text: text}
}

// Text returns the text to be stored, "" if r says nothing. Two that say the same have the
// same text.
func (r Remainder) Text() (string, error) {
	if r.kept == nil || r.kept == dropped {
		return r.text, nil
	}
	return r.kept.log.At(r.kept.at)
}

// Parse reads the text.
func (r Remainder) Parse() (resourcesync.Remainder, error) {
	text, err := r.Text()
	if err != nil {
		return resourcesync.Remainder{}, err
	}
	return resourcesync.ParseRemainder(text)
}

// IsZero reports whether r is empty, and not because it was dropped.
func (r Remainder) IsZero() bool { return r.text == "" && r.kept == nil }

// Equal reports whether both have the same text. A text that cannot be read equals none.
func (r Remainder) Equal(o Remainder) bool {
	a, errA := r.Text()
	b, errB := o.Text()
	return errA == nil && errB == nil && a == b
}

// MarshalText returns the same text as Text, or one that stands for a dropped Remainder.
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

// Load reads the text into memory, where it outlives the spool.
func (r *Remainder) Load() error {
	text, err := r.Text()
	if err == nil {
		*r = Remainder{text: text}
	}
	return err
}

// setAside moves the text from memory to a spool: some thousand changes are in memory, and
// the Source decides how many links each of them has. It can be read until the spool is
// closed.
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

// Held returns how many bytes of the text are in memory.
func (r Remainder) Held() int { return len(r.text) }

// Dropped reports whether the Source has given more than is kept: r says nothing then.
func (r Remainder) Dropped() bool { return r.kept == dropped }
