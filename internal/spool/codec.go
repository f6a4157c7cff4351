package spool

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// A codec writes values of one type as bytes and reads them back. We have our own
// because encoding/json is ten times slower and changes strings that are not
// UTF-8, and encoding/gob can't see types that have only a text form.
//
// Numbers are varints, strings and slices have their length in front, a struct is
// its fields in order. A type with AppendBinary, MarshalBinary or MarshalText, and the way
// back, is kept by them. Nothing says of itself what it is: only the same program
// can read it.
type codec struct {
	encode func(b []byte, v reflect.Value) ([]byte, error) // appends v, which is addressable
	decode func(in *input, v reflect.Value) error
}

var errSpoiled = errors.New("the record is spoiled")

// input is what is left of a record.
type input struct{ b []byte }

func (in *input) uvarint() (uint64, error) {
	n, size := binary.Uvarint(in.b)
	if size <= 0 {
		return 0, errSpoiled
	}
	in.b = in.b[size:]
	return n, nil
}

func (in *input) varint() (int64, error) {
	n, size := binary.Varint(in.b)
	if size <= 0 {
		return 0, errSpoiled
	}
	in.b = in.b[size:]
	return n, nil
}

func (in *input) take(n uint64) ([]byte, error) {
	if n > uint64(len(in.b)) {
		return nil, errSpoiled
	}
	p := in.b[:n]
	in.b = in.b[n:]
	return p, nil
}

// codecs compiles codecs; types may contain themselves by pointer or slice.
type codecs map[reflect.Type]*codec

// of returns the codec of t, or an error that names the part which can't be kept.
func (cs codecs) of(t reflect.Type) (*codec, error) {
	if c, ok := cs[t]; ok {
		return c, nil
	}
	c := new(codec)
	cs[t] = c
	made, err := cs.compile(t)
	if err != nil {
		return nil, err
	}
	*c = made
	return c, nil
}

func (cs codecs) compile(t reflect.Type) (codec, error) {
	if c, ok, err := marshaled(t); ok || err != nil {
		return c, err
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolCodec, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intCodec, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return uintCodec, nil
	case reflect.Float32, reflect.Float64:
		return floatCodec, nil
	case reflect.String:
		return stringCodec, nil
	case reflect.Pointer:
		return cs.pointer(t)
	case reflect.Slice:
		return cs.slice(t)
	case reflect.Array:
		return cs.array(t)
	case reflect.Struct:
		return cs.structure(t)
	}
	return codec{}, fmt.Errorf("a %v can't be kept in a spool", t)
}

var (
	boolCodec = codec{
		func(b []byte, v reflect.Value) ([]byte, error) {
			if v.Bool() {
				return append(b, 1), nil
			}
			return append(b, 0), nil
		},
		func(in *input, v reflect.Value) error {
			p, err := in.take(1)
			if err == nil {
				v.SetBool(p[0] != 0)
			}
			return err
		},
	}
	intCodec = codec{
		func(b []byte, v reflect.Value) ([]byte, error) { return binary.AppendVarint(b, v.Int()), nil },
		func(in *input, v reflect.Value) error {
			n, err := in.varint()
			v.SetInt(n)
			return err
		},
	}
	uintCodec = codec{
		func(b []byte, v reflect.Value) ([]byte, error) { return binary.AppendUvarint(b, v.Uint()), nil },
		func(in *input, v reflect.Value) error {
			n, err := in.uvarint()
			v.SetUint(n)
			return err
		},
	}
	floatCodec = codec{
		func(b []byte, v reflect.Value) ([]byte, error) {
			return binary.AppendUvarint(b, math.Float64bits(v.Float())), nil
		},
		func(in *input, v reflect.Value) error {
			n, err := in.uvarint()
			v.SetFloat(math.Float64frombits(n))
			return err
		},
	}
	stringCodec = codec{
		func(b []byte, v reflect.Value) ([]byte, error) {
			return append(binary.AppendUvarint(b, uint64(v.Len())), v.String()...), nil
		},
		func(in *input, v reflect.Value) error {
			n, err := in.uvarint()
			if err != nil {
				return err
			}
			p, err := in.take(n)
			v.SetString(string(p))
			return err
		},
	}
)

func (cs codecs) pointer(t reflect.Type) (codec, error) {
	elem, err := cs.of(t.Elem())
	if err != nil {
		return codec{}, err
	}
	return codec{
		func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return append(b, 0), nil
			}
			return elem.encode(append(b, 1), v.Elem())
		},
		func(in *input, v reflect.Value) error {
			p, err := in.take(1)
			if err != nil || p[0] == 0 {
				return err
			}
			v.Set(reflect.New(t.Elem()))
			return elem.decode(in, v.Elem())
		},
	}, nil
}

// slice writes the length plus one, and 0 for nil.
func (cs codecs) slice(t reflect.Type) (codec, error) {
	elem, err := cs.of(t.Elem())
	if err != nil {
		return codec{}, err
	}
	isBytes := t.Elem() == reflect.TypeFor[byte]()
	encode := func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, 0), nil
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		if isBytes {
			return append(b, v.Bytes()...), nil
		}
		return elem.encodeAll(b, v)
	}
	decode := func(in *input, v reflect.Value) error {
		n, err := in.uvarint()
		if err != nil || n == 0 {
			return err
		}
		if n-1 > uint64(len(in.b)) && t.Elem().Size() > 0 {
			return errSpoiled // every element takes a byte or more
		}
		v.Set(reflect.MakeSlice(t, int(n-1), int(n-1)))
		if isBytes {
			p, err := in.take(n - 1)
			reflect.Copy(v, reflect.ValueOf(p))
			return err
		}
		return elem.decodeAll(in, v)
	}
	return codec{encode, decode}, nil
}

func (cs codecs) array(t reflect.Type) (codec, error) {
	elem, err := cs.of(t.Elem())
	if err != nil {
		return codec{}, err
	}
	if t.Elem() != reflect.TypeFor[byte]() {
		return codec{elem.encodeAll, elem.decodeAll}, nil
	}
	return codec{
		func(b []byte, v reflect.Value) ([]byte, error) { return append(b, v.Bytes()...), nil },
		func(in *input, v reflect.Value) error {
			p, err := in.take(uint64(t.Len()))
			reflect.Copy(v, reflect.ValueOf(p))
			return err
		},
	}, nil
}

func (c *codec) encodeAll(b []byte, v reflect.Value) (_ []byte, err error) {
	for i := range v.Len() {
		if b, err = c.encode(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (c *codec) decodeAll(in *input, v reflect.Value) error {
	for i := range v.Len() {
		if err := c.decode(in, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (cs codecs) structure(t reflect.Type) (codec, error) {
	fields := make([]*codec, t.NumField())
	for i := range fields {
		f := t.Field(i)
		if !f.IsExported() {
			return codec{}, fmt.Errorf("field %s of %v is not exported, so a spool would lose it", f.Name, t)
		}
		var err error
		if fields[i], err = cs.of(f.Type); err != nil {
			return codec{}, fmt.Errorf("field %s of %v: %w", f.Name, t, err)
		}
	}
	return codec{
		func(b []byte, v reflect.Value) (_ []byte, err error) {
			for i, f := range fields {
				if b, err = f.encode(b, v.Field(i)); err != nil {
					return nil, err
				}
			}
			return b, nil
		},
		func(in *input, v reflect.Value) error {
			for i, f := range fields {
				if err := f.decode(in, v.Field(i)); err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

// marshaled is the codec of a type that knows a form of itself, in binary if it has one.
// The zero value is kept as such, as not every type has a form for it.
func marshaled(t reflect.Type) (codec, bool, error) {
	p := reflect.PointerTo(t)
	f, ok := formOf(p)
	if !ok || t.Kind() == reflect.Pointer {
		return codec{}, false, nil
	}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if _, promoted, err := marshaled(f.Type); f.Anonymous && (promoted || err != nil) {
				return codec{}, false, fmt.Errorf("%v has the form of its embedded %v, so a spool would lose the rest", t, f.Type)
			}
		}
	}
	return f.codec(), true, nil
}

// form is how a type writes itself and is read back. What is given is a pointer to it.
type form struct {
	append    func(b []byte, v any) ([]byte, error)
	unmarshal func(v any, form []byte) error
}

func formOf(p reflect.Type) (form, bool) {
	has := func(in ...reflect.Type) bool {
		return !slices.ContainsFunc(in, func(t reflect.Type) bool { return !p.Implements(t) })
	}
	fromBinary := func(v any, b []byte) error { return v.(encoding.BinaryUnmarshaler).UnmarshalBinary(b) }
	switch binaryUnmarshaler := reflect.TypeFor[encoding.BinaryUnmarshaler](); {
	case has(reflect.TypeFor[encoding.BinaryAppender](), binaryUnmarshaler):
		return form{func(b []byte, v any) ([]byte, error) { return v.(encoding.BinaryAppender).AppendBinary(b) }, fromBinary}, true
	case has(reflect.TypeFor[encoding.BinaryMarshaler](), binaryUnmarshaler):
		return form{func(b []byte, v any) ([]byte, error) {
			f, err := v.(encoding.BinaryMarshaler).MarshalBinary()
			return append(b, f...), err
		}, fromBinary}, true
	case has(reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()):
		return form{func(b []byte, v any) ([]byte, error) {
			f, err := v.(encoding.TextMarshaler).MarshalText()
			return append(b, f...), err
		}, func(v any, b []byte) error { return v.(encoding.TextUnmarshaler).UnmarshalText(b) }}, true
	}
	return form{}, false
}

// codec writes the length of the form plus one, and 0 for the zero value.
func (f form) codec() codec {
	return codec{
		func(b []byte, v reflect.Value) ([]byte, error) {
			if v.IsZero() {
				return append(b, 0), nil
			}
			start := len(b)
			b, err := f.append(append(b, 0), v.Addr().Interface()) // a length of one byte is the rule
			if err != nil {
				return nil, fmt.Errorf("keep a %v: %w", v.Type(), err)
			}
			n := uint64(len(b)-start-1) + 1
			if n < 0x80 {
				b[start] = byte(n)
				return b, nil
			}
			text := bytes.Clone(b[start+1:])
			return append(binary.AppendUvarint(b[:start], n), text...), nil
		},
		func(in *input, v reflect.Value) error {
			n, err := in.uvarint()
			if err != nil || n == 0 {
				return err
			}
			p, err := in.take(n - 1)
			if err != nil {
				return err
			}
			if err := f.unmarshal(v.Addr().Interface(), p); err != nil {
				return fmt.Errorf("read back a %v: %w", v.Type(), err)
			}
			return nil
		},
	}
}
