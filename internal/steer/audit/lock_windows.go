package audit

// lock does without one: two processes that rename the log at the same moment
// may disturb each other.
func lock(string) (unlock func(), err error) { return func() {}, nil }
