package oaipmh

import "net/http"

// places bounds how many requests are answered at a time: each answer is in memory.
type places chan struct{}

func newPlaces(n int) places { return make(places, n) }

// enter takes a place. If there is none the client is asked to come back (§3.1.2.2).
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

// inert keeps a browser from running scripts in what others wrote, in the name of our host.
func inert(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
