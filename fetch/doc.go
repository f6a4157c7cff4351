// Package fetch is the one HTTP client of Instep: it identifies itself, bounds everything
// it reads, is polite to hosts, and sends credentials only to the origins they are for.
//
// A [Client] made by [New] answers [Client.Get] with a [Response] or an [*Error], whose
// Kind classifies the failure. Every request keeps these rules:
//
//   - only http and https, and no user name or password in a URL;
//   - redirects are followed here, at most [Options.MaxRedirects], never from https
//     to http, and to another origin only if that is allowed; every hop is checked
//     like the first;
//   - the address that is dialled is checked after resolution: what is not public
//     is refused unless allowed ([Options.AllowPrivate], [Client.TrustSource]), and
//     the addresses of cloud metadata services always are;
//   - credentials belong to one origin and are looked up again at each hop, client
//     certificates too; there are no cookies and no Referer, and no proxy is taken
//     from the environment;
//   - bytes arrive as they are served: no content coding is undone, and none but gzip is
//     asked for, and that only with [Request.Gzip];
//   - a number of requests at a time and a rate per host; an answer that asks to
//     wait (429, 503) holds back every request to that host, and makes the number
//     smaller for a while;
//   - a part of a resource is exactly the one asked for ([Part]), and a body that
//     broke off continues only with bytes that are proved to follow ([Resume]);
//   - time-outs for connecting, for the header and for silence, and a least rate.
package fetch
