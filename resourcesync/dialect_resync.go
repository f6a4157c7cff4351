package resourcesync

// This file reads documents with the root <resync>, from the appendix of an article in D-Lib
// Magazine 2013. A link before the first item belongs to the document. A link after an item
// belongs to that item.

func (d *Decoder) resyncRoot() error {
	d.form, d.hasMD = formResync, true
	d.setDialect(DialectResync, Note{Rule: ruleRoot, Msg: "a resync document, as in the draft in D-Lib Magazine 2013"})
	if uri, ok := d.takeAttr("rstype"); ok {
		d.header.Capability = d.capabilityOf(uri)
	}
	if modified, ok := d.takeAttr("modified"); ok {
		d.setModified(modified)
	}
	d.keepRootAttrs()
	return nil
}

// resyncRootChild reads a child of the root whose start tag was read. If the child is an
// item, which ends the header, it does not read the content.
func (d *Decoder) resyncRootChild() (isEntry bool, err error) {
	if d.s.elem.space == spaceDLib {
		switch string(d.s.elem.local) {
		case "item":
			return true, d.countEntry(URLSet)
		case "link":
			return false, d.atomOrResyncLink()
		}
	}
	return false, d.foreignRootChild()
}

// resyncItem reads an item whose start tag was read, and the links after the item. It
// reads up to the start tag of the next item, or to the end of the document.
func (in *entryReader) resyncItem() error {
	d := in.d
	if uri, ok := d.takeAttr("href"); ok {
		in.setLoc(uri)
	}
	if modified, ok := d.takeAttr("modified"); ok {
		in.e.LastMod = d.datetime(modified, "modified")
	}
	in.metadata()
	for {
		switch tok, err := d.s.next(); {
		case err != nil:
			return err
		case tok == tokEOF:
			return d.finish()
		case tok == tokEnd:
			continue
		}
		ours := d.s.elem.space == spaceDLib
		switch name := string(d.s.elem.local); {
		case ours && name == "item" && len(d.s.opens) == 2:
			d.state = atEntry
			return d.countEntry(URLSet)
		case ours && name == "link":
			if err := d.link(&in.e.Links); err != nil {
				return err
			}
		default:
			if err := d.foreignChild(); err != nil {
				return err
			}
		}
	}
}
