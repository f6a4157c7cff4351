package oaipmh

import "net/http"

// places bounds the number of requests answered concurrently, since each response is in
// memory.
type places chan struct{}

// enter takes a slot. If none is free it asks the client to come back later
// (§3.1.2.2).
func (p places) enter(w http.ResponseWriter) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many requests at a time: come back in a few seconds", http.StatusServiceUnavailable)
		return false
	}
}

func (p places) leave() { <-p }

// inert prevents browsers from running scripts in foreign content with the rights of
// our host.
func inert(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
