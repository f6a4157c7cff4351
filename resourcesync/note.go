package resourcesync

// Quirk numbers a habit of existing Sources that is not the standard's and is
// read all the same. 0 is none.
type Quirk uint8

// The quirks that a Decoder knows.
const (
	QuirkNamespace      Quirk = 2  // ResourceSync namespace without the slash at its end
	QuirkSpaceFirst     Quirk = 11 // white space before the XML declaration
	QuirkCapabilityCase Quirk = 17 // capability in camel or upper case
	QuirkCapabilityNew  Quirk = 18 // capability that the standard does not define
	QuirkLinkIncomplete Quirk = 25 // rs:ln without rel or href
	QuirkRelationCase   Quirk = 26 // relation type with capital letters
	QuirkForeignAttr    Quirk = 27 // attribute that the standard does not define
	QuirkDatetimeZone   Quirk = 31 // no offset, read as UTC, or a blank for the T
	QuirkHashSpelling   Quirk = 46 // SHA256 or another spelling for sha-256
	QuirkHashBase64     Quirk = 47 // digest in base64 or base64url
	QuirkEmptyValue     Quirk = 49 // attribute present but empty, read as absent
	QuirkPath           Quirk = 53 // path without its leading slash
)

// Note tells what a Decoder tolerated, and how it read it.
type Note struct {
	Quirk Quirk  // 0 if it is no habit but a plain mistake
	Rule  string // id of the rule that is broken, as a linter names it; may be ""
	Line  int    // line of the element, from 1
	Msg   string // a sentence: what was there and how it was read
}
