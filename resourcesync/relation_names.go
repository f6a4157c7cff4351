package resourcesync

import (
	_ "embed"
	"strings"
	"sync"
)

// relationsText is a copy of IANA's list of registered link relation types, one per
// line.
//
//go:embed relations.txt
var relationsText string

var registered = sync.OnceValue(func() map[string]bool {
	m := make(map[string]bool)
	for name := range strings.Lines(relationsText) {
		m[strings.TrimSpace(name)] = true
	}
	return m
})

// IsRelation reports whether rel is a registered relation type or an absolute URI (1.1 §7).
func IsRelation(rel string) bool {
	if registered()[strings.ToLower(rel)] {
		return true
	}
	scheme, rest, ok := strings.Cut(rel, ":")
	return ok && scheme != "" && rest != "" && isScheme(scheme) && !strings.ContainsAny(rel, " \t\r\n<>\"")
}
