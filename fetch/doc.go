// Package fetch is the HTTP client of Instep. It identifies itself to servers, limits
// everything that it reads, does not overload hosts, and sends credentials only to their
// origins.
//
// A [Client] made by [New] answers [Client.Get] with a [Response] or an [*Error], whose
// Kind classifies the failure. These rules hold for every request:
//
//   - The URL is http or https and has no user name or password.
//   - At most five redirects are followed, never from https to http, and to another
//     origin only if that origin is allowed. Each target is checked like the requested
//     URL.
//   - The host is resolved before its address is checked. Addresses that are not public
//     are refused unless they are allowed ([Options.AllowPrivate],
//     [Client.TrustSource]). Addresses of cloud metadata services are always refused.
//   - Credentials and client certificates belong to one origin, and are looked up again
//     after each redirect. The client sends no cookies and no Referer, and ignores a
//     proxy in the environment.
//   - The body has the bytes that the server sent. Compression with gzip is accepted
//     only with [Request.Gzip], and the caller decompresses.
//   - The number of concurrent requests to a host and their rate are limited. If a host
//     asks clients to wait (429, 503), all requests to the host wait, and for a while
//     fewer requests to the host are concurrent.
//   - A range of bytes is exactly the requested range ([Part]). A body that broke off is
//     continued only with bytes of the same version ([Resume]).
//   - There are limits on the time to connect, the time until the header, the time
//     without a byte of the body, and the transfer rate of the body.
package fetch
