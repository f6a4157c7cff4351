package spool

import (
	"encoding"
	"fmt"
	"reflect"
)

// lossless returns an error if a value of the type could change when it is encoded as
// CBOR and decoded. CBOR omits unexported fields, and decodes the content of an
// interface as another type.
func lossless(t reflect.Type, known map[reflect.Type]bool) error {
	if known[t] {
		return nil
	}
	known[t] = true
	if marshals(t) {
		if t.Kind() == reflect.Struct {
			for f := range t.Fields() {
				if f.Anonymous && marshals(f.Type) {
					return fmt.Errorf("%v is stored as its embedded %v, so a spool would lose its other fields", t, f.Type)
				}
			}
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return lossless(t.Elem(), known)
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() {
				return fmt.Errorf("a spool would lose the unexported field %v.%s", t, f.Name)
			}
			if err := lossless(f.Type, known); err != nil {
				return err
			}
		}
	case reflect.Interface, reflect.Map, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Errorf("a spool can't store values of type %v", t)
	}
	return nil
}

func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) && p.Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) && p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
