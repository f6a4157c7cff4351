package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// museum is the invented collection of the demonstration. It is the same in each run.
type museum struct {
	dir     string
	rng     *rand.Rand
	objects []object
	next    int
}

type object struct {
	id, what, year int
	revision       int
}

var things = []string{
	"brass sextant", "tide gauge", "ship's log", "pilot's chart", "signal lamp", "rope splice", "harbour bell",
	"lighthouse lens", "figurehead", "compass card", "barometer", "net float", "fishing weir model", "customs seal",
}

const firstObjects = 40

func newMuseum(dir string) *museum {
	return &museum{dir: dir, rng: rand.New(rand.NewPCG(1, 2))}
}

func (m *museum) open() error {
	for range firstObjects {
		if _, err := m.acquire(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(m.dir, "index.html"), []byte("<!doctype html>\n<title>Museum of the Harbour</title>\n<h1>Museum of the Harbour</h1>\n"), 0o644)
}

func (m *museum) acquire() (object, error) {
	m.next++
	o := object{id: m.next, what: m.rng.IntN(len(things)), year: 1700 + m.rng.IntN(220)}
	m.objects = append(m.objects, o)
	return o, m.write(o)
}

func (o object) name() string { return fmt.Sprintf("H-%04d", o.id) }

func (o object) title() string { return fmt.Sprintf("%s, %d", things[o.what], o.year) }

func (m *museum) files(o object) map[string]string {
	record := fmt.Sprintf("{\n  \"id\": %q,\n  \"title\": %q,\n  \"revision\": %d\n}\n", o.name(), o.title(), o.revision)
	label := fmt.Sprintf("%s\n%s\n\nGiven to the museum by the harbour office.\n", strings.ToUpper(o.title()), o.name())
	hue := o.id * 47 % 360
	picture := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><rect width="100" height="100" fill="hsl(%d,40%%,85%%)"/><circle cx="50" cy="50" r="%d" fill="hsl(%d,60%%,40%%)"/></svg>`+"\n", hue, 15+o.id%30, hue)
	return map[string]string{
		filepath.Join("records", o.name()+".json"): record,
		filepath.Join("labels", o.name()+".txt"):   label,
		filepath.Join("pictures", o.name()+".svg"): picture,
	}
}

func (m *museum) write(o object) error {
	for name, text := range m.files(o) {
		path := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (m *museum) change() ([]string, error) {
	var told []string
	for range 2 {
		o, err := m.acquire()
		if err != nil {
			return nil, err
		}
		told = append(told, fmt.Sprintf("+ the museum acquires %s: %s", o.name(), o.title()))
	}
	for range 3 {
		o := &m.objects[m.rng.IntN(len(m.objects))]
		o.revision++
		if err := m.write(*o); err != nil {
			return nil, err
		}
		told = append(told, fmt.Sprintf("~ the museum revises the record of %s", o.name()))
	}
	i := m.rng.IntN(len(m.objects))
	o := m.objects[i]
	m.objects = append(m.objects[:i], m.objects[i+1:]...)
	for name := range m.files(o) {
		if err := os.Remove(filepath.Join(m.dir, name)); err != nil {
			return nil, err
		}
	}
	return append(told, fmt.Sprintf("- the museum returns %s to its lender", o.name())), nil
}
