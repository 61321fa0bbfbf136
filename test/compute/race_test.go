//go:build linux && race

package compute

// Under the race detector the program under test is built with it too.
func init() { buildFlags, buildCgo = []string{"-race"}, "1" }
