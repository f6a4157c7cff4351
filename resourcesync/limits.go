package resourcesync

// Limits are the limits of a Decoder. In each field, 0 means the default, which is enough
// for every document that the standard allows. Bytes and Entries have large defaults,
// because some Sources put a long list into one document. They do not affect memory,
// because a Decoder holds only one entry at a time.
type Limits struct {
	Bytes      int64 // size in bytes of the decompressed document as UTF-8; default 200 MiB
	Entries    int   // number of entries; default 1,000,000, twenty times the limit of the standard
	Depth      int   // depth of nested elements; default 32
	Attributes int   // number of attributes of one element; default 64
	Token      int   // length in bytes of one tag, text, comment or processing instruction; default 64 KiB
	URI        int   // length in bytes of a "loc" or "href"; default 8 KiB
	Foreign    int   // number of elements from other vocabularies in one entry, or between two entries; default 10,000
	// ForeignBytes is the largest total length in bytes of the stored elements from
	// other vocabularies, in one entry or in the root; default 1 MiB.
	ForeignBytes int
	Links        int // number of rs:ln elements in one entry or in the root; default 10,000
	LinkBytes    int // total length in bytes of the start tags of all rs:ln elements in one entry or in the root; default 2 MiB
	Namespaces   int // number of namespace declarations in scope at the same time; default 128
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
