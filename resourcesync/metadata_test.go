package resourcesync

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What an entry says beside the columns of a store comes back from its text, and says the
// same in another entry.
func TestRemainderSurvivesTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEntry(genKind().Draw(t, "kind")).Draw(t, "entry")
		want := e.Remainder()
		text, err := want.Text()
		if err != nil {
			t.Fatal(err)
		}
		if (text == "") != want.IsZero() {
			t.Fatalf("text %q of a remainder that is zero: %v", text, want.IsZero())
		}
		got, err := ParseRemainder(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("remainder of %q (-got +want):\n%s", text, cmp.Diff(got, want, exact))
		}
		var other Entry
		other.SetRemainder(got)
		again := other.Remainder()
		if same, err := again.Text(); err != nil || same != text {
			t.Fatalf("text of the entry made of it: got %q (%v), want %q", same, err, text)
		}
	})
}

// XML gives the order of attributes no meaning, so it makes no other text.
func TestRemainderHasAttributesInOrder(t *testing.T) {
	a, b := Attr{"urn:x", "a", "1"}, Attr{"urn:x", "b", "2"}
	texts := map[string]bool{}
	for _, attrs := range [][]Attr{{a, b}, {b, a}} {
		e := Entry{Metadata: Metadata{Attrs: attrs}, Links: []Link{{Rel: "via", Href: "urn:y"}, {Rel: "via", Href: "urn:z", Attrs: attrs}}}
		before := slices.Clone(attrs)
		r := e.Remainder()
		text, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		if texts[text] = true; !slices.Equal(attrs, before) {
			t.Errorf("the attributes of the entry are in another order now: %v", attrs)
		}
	}
	if len(texts) != 1 {
		t.Errorf("got %d texts, want one: %v", len(texts), texts)
	}
}

// Every field of an entry is in its remainder, or is one that stores have a column for, or
// that says nothing of a resource.
func TestRemainderLeavesNoFieldOut(t *testing.T) {
	elsewhere := "Loc LastMod Line Capability At Completed From Until Change Datetime Digests Length Type Path"
	var e Entry
	e.SetRemainder(full(reflect.TypeFor[Remainder]()).Interface().(Remainder))
	for _, v := range []reflect.Value{reflect.ValueOf(e), reflect.ValueOf(e.Metadata)} {
		for f, field := range v.Fields() {
			if f.Anonymous || slices.Contains(strings.Fields(elsewhere), f.Name) {
				continue
			}
			if field.IsZero() {
				t.Errorf("%s is in no remainder", f.Name)
			}
		}
	}
	r := e.Remainder()
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[Link]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(text, `"`+name+`":`) {
			t.Errorf("%s of a link is not in %s", f.Name, text)
		}
	}
}

// full returns a value in which no field is zero.
func full(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch v.Addr().Interface().(type) {
	case *Datetime:
		d, err := ParseDatetime("2024")
		if err != nil {
			panic(err)
		}
		v.Set(reflect.ValueOf(d))
	case *Digests:
		v.Set(reflect.ValueOf(NewHasher(MD5).Digests()))
	case *Length:
		v.Set(reflect.ValueOf(Bytes(1)))
	case *Priority:
		v.Set(reflect.ValueOf(Priority{"1"}))
	default:
		switch of.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int:
			v.SetInt(1)
		case reflect.Slice:
			v.Set(reflect.Append(v, full(of.Elem())))
		case reflect.Struct:
			for i := range of.NumField() {
				v.Field(i).Set(full(of.Field(i).Type))
			}
		}
	}
	return v
}

func TestRemainderThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"{", "[]", `{"links":1}`, `{"links":[{"modified":"noon"}]}`} {
		if r, err := ParseRemainder(text); err == nil || !r.IsZero() {
			t.Errorf("%s: got %+v and no error", text, r)
		}
	}
	if r, err := ParseRemainder(`{"priority":"0.5","later":{"x":1}}`); err != nil || r.Priority.String() != "0.5" {
		t.Errorf("with a member of a later version: got %+v, %v", r, err)
	}
}

func BenchmarkRemainder(b *testing.B) {
	e := Entry{Links: slices.Repeat([]Link{{Rel: "collection", Href: "http://example.org/collections/7", Type: "text/turtle"}}, 100)}
	for b.Loop() {
		r := e.Remainder()
		if _, err := r.Text(); err != nil {
			b.Fatal(err)
		}
	}
}

// Each field of Metadata and of Remainder counts by itself, so that none is forgotten where all
// are named.
func TestEachFieldOfMetadataCounts(t *testing.T) {
	digests, err := ParseDigests("md5:1584abdf8ebdc9802ac0c6a7402c03b6")
	if err != nil {
		t.Fatal(err)
	}
	may, err := ParseDatetime("2024-05")
	if err != nil {
		t.Fatal(err)
	}
	half, err := ParsePriority("0.5")
	if err != nil {
		t.Fatal(err)
	}
	full := Entry{
		Metadata: Metadata{
			Capability: CapabilityResourceList, At: may, Completed: may, From: may, Until: may, Change: Created, Datetime: may,
			Digests: digests, Length: Bytes(1), Type: "text/plain", Encoding: "gzip", Path: "/a", Attrs: []Attr{{Name: "a", Value: "b"}},
		},
		ChangeFreq: Daily, Priority: half, Links: []Link{{Rel: "via", Href: "https://example.org/"}}, Foreign: "<a/>",
	}
	eachField(t, full.Metadata, func(name string, m Metadata) {
		if m.isZero() {
			t.Errorf("%s: Metadata with this field alone counts as empty", name)
		}
		root := []string{"Capability", "At", "Completed", "From", "Until", "Attrs"}
		if names := m.EntryAttributes(); (len(names) == 0) != slices.Contains(root, name) {
			t.Errorf("%s: attributes that only entries have: %q", name, names)
		}
		var merged Metadata
		if differs := merged.merge(&m); differs != "" || !reflect.DeepEqual(merged, m) {
			t.Errorf("%s: merged into nothing: %+v, %q", name, merged, differs)
		}
	})
	eachField(t, full.Remainder(), func(name string, r Remainder) {
		if r.IsZero() {
			t.Errorf("%s: a Remainder with this field alone counts as empty", name)
		}
		var e Entry
		e.SetRemainder(r)
		taken := e.Remainder()
		text, err := taken.Text()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseRemainder(text); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("%s: %+v comes back as %+v, %v", name, r, back, err)
		}
	})
}

// eachField calls each with values that have one field of full. Every field of full is set.
func eachField[V any](t *testing.T, full V, each func(name string, one V)) {
	t.Helper()
	all := reflect.ValueOf(full)
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).IsZero() {
			t.Errorf("%s: the test gives it no value", name)
		}
		var one V
		reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
		each(name, one)
	}
}
