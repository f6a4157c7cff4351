package mirror

// StateDir is the directory of the state of a mirror: the one given, or that inside the
// mirror if none is.
func StateDir(dir, state string) string { return (&Options{Dir: dir, State: state}).state() }
