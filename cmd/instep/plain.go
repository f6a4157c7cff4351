package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"instep/discover"
	"instep/fetch"
)

// noSourceText says that a site offers no Source, and where one was looked for.
func noSourceText(err *discover.Error) string {
	var tried []string
	for _, a := range err.Tried {
		if where := triedPlace(a); where != "" {
			tried = append(tried, where)
		}
	}
	return "this site does not offer ResourceSync; looked at " + strings.Join(tried, ", ")
}

// triedPlace is one place where a Source was looked for, and what was there. That there
// is no Link header goes without saying.
func triedPlace(a discover.Attempt) string {
	u, err := url.Parse(a.URL)
	if err != nil {
		return ""
	}
	path := u.EscapedPath()
	switch a.Way {
	case discover.WayHeader:
		return ""
	case discover.WayHTML:
		return "the links of the page (none leads to a Source)"
	case discover.WayRobots:
		path = "robots.txt"
	case discover.WayDocument:
		path = "the page itself"
	}
	return fmt.Sprintf("%s (%s)", path, triedOutcome(a))
}

func triedOutcome(a discover.Attempt) string {
	fe, ok := errors.AsType[*fetch.Error](a.Err)
	switch {
	case a.Page != nil:
		return "a web page"
	case ok && fe.Status != 0:
		return fmt.Sprint(fe.Status)
	case ok:
		return fe.Msg
	case a.Way == discover.WayRobots:
		return "names no list of ResourceSync"
	}
	return "not a ResourceSync document"
}
