package oaipmh

import "net/http"

// places are slots for the requests that are answered concurrently. Their number is
// limited because responses are built in memory.
type places chan struct{}

// enter takes a slot. If none is free, it answers with status 503 and Retry-After
// (§3.1.2.2), and returns false.
func (p places) enter(w http.ResponseWriter) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many requests at a time: try again in a few seconds", http.StatusServiceUnavailable)
		return false
	}
}

func (p places) leave() { <-p }

// inert sets header fields so that browsers do not run scripts in foreign content with
// the rights of our host.
func inert(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
