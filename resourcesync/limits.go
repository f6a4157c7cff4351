package resourcesync

// Limits bound a Decoder. A field that is 0 takes its default, which is generous for every
// document that the standard allows. Bytes and Entries do not affect memory, since the
// Decoder holds one entry at a time; their defaults allow Sources that never split a list.
type Limits struct {
	Bytes      int64 // size of the document, decompressed, as UTF-8; default 200 MiB
	Entries    int   // default 1,000,000: twenty times the limit of the standard
	Depth      int   // nested elements; default 32
	Attributes int   // attributes of one element; default 64
	Token      int   // bytes of one tag, text, comment or processing instruction; default 64 KiB
	URI        int   // bytes of a loc or href; default 8 KiB
	Foreign    int   // elements that are not ours in one entry, or between two; default 10,000
	// ForeignBytes bounds the stored elements of other vocabularies, in one entry and in
	// the root; default 1 MiB.
	ForeignBytes int
	Links        int // rs:ln of one entry or of the root; default 10,000
	LinkBytes    int // bytes of the start tags of the links; default 2 MiB
	Namespaces   int // prefixes that are declared at once; default 128
}

func (l Limits) withDefaults() Limits {
	def(&l.Bytes, 200<<20)
	def(&l.Entries, 1_000_000)
	def(&l.Depth, 32)
	def(&l.Attributes, 64)
	def(&l.Token, 64<<10)
	def(&l.URI, 8<<10)
	def(&l.Foreign, 10_000)
	def(&l.ForeignBytes, 1<<20)
	def(&l.Links, 10_000)
	def(&l.LinkBytes, 2<<20)
	def(&l.Namespaces, 128)
	return l
}

func def[T int | int64](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}
