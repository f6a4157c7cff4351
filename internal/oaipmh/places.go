package oaipmh

import "net/http"

// places limits the number of requests answered at a time, because responses are built
// in memory.
type places chan struct{}

// enter begins to answer a request. If too many requests are being answered, it refuses
// the request with status 503 and Retry-After (§3.1.2.2), and returns false.
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

// forbidScripts stops a browser from running scripts in a response: the response contains
// text of other hosts.
func forbidScripts(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
